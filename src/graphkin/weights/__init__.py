"""From similarity to weights: whom an anchor attracts and whom it repels."""
