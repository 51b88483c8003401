"""What embeddings are for: similar nodes, clusters, maps, missing links."""
