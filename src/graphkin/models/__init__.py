"""What is trained: views of a graph and encoders."""
