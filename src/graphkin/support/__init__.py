"""What is not about graphs: sparse matrices, randomness, files, signals, several processes."""
