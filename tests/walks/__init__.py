"""Walks of every maker, recorded or built by hand, read through the product and compared row by row."""
