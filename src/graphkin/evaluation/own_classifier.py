"""How well a method that trains with labels predicts classes itself."""

from __future__ import annotations

from graphkin.errors import GraphError
from graphkin.graphs.graph import Graph
from graphkin.training.fitted import Fitted


def own_accuracy(fitted: Fitted, graph: Graph, part: str = "test") -> float:
    """Accuracy in percent on the labelled nodes of the graph's ``test_mask``, or of another part's mask."""
    mask = getattr(graph, f"{part}_mask")
    if graph.y is None or mask is None:
        raise GraphError(f"{part} accuracy needs labels and a {part}_mask.")
    judged = mask & (graph.y >= 0)
    if not judged.any():
        raise GraphError(f"{part} accuracy needs labelled nodes in the {part}_mask, found none.")
    return 100 * float((fitted.predict(graph)[judged] == graph.y[judged]).float().mean())
