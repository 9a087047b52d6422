"""The whole inventory as a file, in and out."""
