"""What tests and benchmarks share: servers, the product's processes, people and rows. It imports neither of them."""
