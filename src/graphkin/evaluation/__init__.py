"""How good embeddings are: protocols, probes, training-free baselines."""
