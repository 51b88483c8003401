"""What any program needs: sparse matrices, randomness, files, signals, several processes."""
