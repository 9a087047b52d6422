"""Pure rules of the product: standard library only; the present time is always an argument."""
