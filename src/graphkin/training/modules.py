"""What a method trains, and the features it trains on."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from graphkin.errors import GraphError, SettingError
from graphkin.graphs.alikeness import alikeness
from graphkin.graphs.arrays import Features, row_scaled, smallest_entry
from graphkin.graphs.graph import Graph
from graphkin.graphs.recipes import needs_recipe
from graphkin.methods import Method
from graphkin.models.encoder import features_for, inputs_of, learned_from, trained_widths_of
from graphkin.models.views import whole_graph
from graphkin.support.parallel import peers
from graphkin.support.randomness import generator


def modules_for(method: Method, num_features: int, num_classes: int, seed: int) -> nn.ModuleDict:
    """Fresh modules, drawn on the CPU so that every device starts from the same parameters.

    PyTorch's global random state, from which layers of a user's encoder may draw, is the seed's while they are built, and
    afterwards what it was.
    """
    draw = generator(seed, "parameters")
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(generator(seed, "global state").get_state())
        encoder = method.encoder.build(num_features, draw)
    if not isinstance(encoder, nn.Module):
        raise SettingError(f"build of an encoder must return a torch.nn.Module, found {type(encoder).__name__}.")
    modules = nn.ModuleDict({"encoder": encoder})
    modules.update(method.objective.heads_of_blocks(trained_widths_of(method.encoder, num_features), num_classes, draw))
    return modules


def untrained_modules(method: Method, graph: Graph, num_classes: int, seed: int) -> nn.ModuleDict:
    """Fresh modules whose encoder knows what it can of a graph without training."""
    modules = modules_for(method, graph.num_features, num_classes, seed)
    encoder: Any = modules["encoder"]
    x = features_for(method.encoder, prepared_features(method, graph))
    learned = learned_from(method.encoder, graph, x)
    for name, value in learned.items():
        encoder.get_buffer(name).copy_(value)
    if hasattr(encoder, "settle"):
        encoder.settle(inputs_of(method.encoder, graph, x, learned), whole_graph(graph))
    return modules


def parameter_bytes(method: Method, num_features: int) -> int:
    """At most, of the encoder, which is the largest part of a model; 0 where it does not say how wide it is."""
    stated = getattr(method.encoder, "parameter_bytes", None)
    if callable(stated):
        return int(stated(num_features))
    wide, layers = 2 * getattr(method.encoder, "width", 0), getattr(method.encoder, "layers", 2)
    return 4 * wide * (num_features + layers * wide)


def scale_for(method: Method, graph: Graph) -> str:
    """What ``feature_scale="auto"`` is for this graph.

    "columns" where its features are columns of a table, each with a scale of its own; else "rows", unless there are negative
    entries, whose sum would mean nothing.
    """
    if method.feature_scale != "auto":
        return method.feature_scale
    if graph.prepared or needs_recipe(graph):
        return "columns"
    return "rows" if smallest_entry(graph.x) >= 0 else "none"


def prepared_features(method: Method, graph: Graph) -> Features:
    """Features as they are trained on; columns were prepared with the graph, by a recipe."""
    x = graph.x
    if scale_for(method, graph) != "rows":
        return x.to(dtype=torch.float32)
    if smallest_entry(x) < 0:
        raise GraphError("feature_scale='rows' divides by row sums, which needs features >= 0; use 'none'.")
    return row_scaled(x).to(dtype=torch.float32)


def suited(method: Method, graph: Graph, *, own_similarity: bool = False) -> tuple[Method, str | None]:
    """With the settings that depend on the graph, and what was chosen and why. An ``own_similarity`` has no β to choose."""
    size = graph.num_nodes, graph.num_features
    chosen = method.configure(epochs=method.optimiser.epochs_on(*size))
    reasons = [method.optimiser.reason(*size)]
    if method.by_alikeness is not None:
        found = peers().from_first(lambda: alikeness(graph, prepared_features(method, graph)))
        instead = method.by_alikeness.settings_for(found, chosen.settings(), graph.num_features)
        if own_similarity:
            instead.pop("beta", None)
        if found is not None and instead:
            chosen = chosen.configure(**instead)
            reasons.append(method.by_alikeness.reason(found, instead))
    return chosen, "; ".join(filter(None, reasons)) or None
