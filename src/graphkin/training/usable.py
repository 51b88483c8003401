"""Whether a method can be trained on a graph at all."""

from __future__ import annotations

import itertools

from graphkin.errors import GraphError, SettingError, argument
from graphkin.graphs.arrays import no_labels, smallest_entry
from graphkin.graphs.graph import Graph
from graphkin.methods import Method
from graphkin.support.files import check_memory
from graphkin.support.parallel import peers
from graphkin.training.modules import parameter_bytes


def check_usable(graph: Graph, method: Method, *, own_similarity: bool = False) -> None:
    """Everything about this graph that would make this method fail later."""
    if graph.num_nodes < 2:
        raise GraphError(f"contrast needs at least 2 nodes, found {graph.num_nodes}.")
    if peers().size > 1 and not method.objective.shares_anchors:
        raise SettingError(
            f"{method.name} is trained by one process; several processes can share kin, grace and gca "
            f"({argument('method', 'kin')})."
        )
    if graph.num_nodes < peers().size:
        raise GraphError(f"there must be at least as many nodes as processes, found {graph.num_nodes} and {peers().size}.")
    if graph.num_edges == 0 and method.objective.needs_edges and not own_similarity:
        raise GraphError(
            f"the graph has no edges, and {method.name} learns from them; to learn from features alone, use kin or a '+' "
            "method with beta=1."
        )
    if method.feature_scale == "rows" and smallest_entry(graph.x) < 0:
        raise GraphError("feature_scale='rows' divides by row sums, which needs features >= 0; use 'none'.")
    parameters = 4 * parameter_bytes(method, graph.num_features)  # with their gradients and both moments of Adam
    width = getattr(method.encoder, "hidden", getattr(method.encoder, "width", None))
    with_width = "" if width is None else f" and hidden={width:,}"
    check_memory(f"training {method.name} with {graph.num_features:,} features{with_width}", parameters)
    if method.needs_labels:
        _check_labels(graph, method)


def _check_labels(graph: Graph, method: Method) -> None:
    if graph.y is None:
        raise GraphError(f"{method.name} is trained with labels, and {no_labels()}")
    for name in ("train_mask", "val_mask"):
        mask = getattr(graph, name)
        if mask is None or not mask.any():
            raise GraphError(f"{method.name} needs to know which nodes to use: {name} is missing or empty.")
        unlabelled = (graph.y[mask] < 0).sum()
        if unlabelled:
            raise GraphError(f"every node in {name} needs a label for {method.name}, found {unlabelled} without one.")
    masks = {name: getattr(graph, name) for name in ("train_mask", "val_mask", "test_mask")}
    for one, other in itertools.combinations([name for name, mask in masks.items() if mask is not None], 2):
        shared = int((masks[one] & masks[other]).sum())
        if shared:
            raise GraphError(f"{one} and {other} must not share nodes, found {shared} in both.")
