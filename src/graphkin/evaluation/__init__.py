"""How good embeddings are."""
