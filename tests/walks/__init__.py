"""Walks of every maker in the catalogue, recorded or built by hand, read through the product and compared row by row."""
