"""Search for a method's settings on a graph: where to look, what is better, and trials that survive a kill."""
