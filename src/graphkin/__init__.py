"""Node embeddings from a graph without labels: similar nodes attract and dissimilar nodes repel, by how similar they are."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphkin.datasets import bundled_cora
    from graphkin.embedder import NodeEmbedder
    from graphkin.errors import InputError
    from graphkin.evaluation import evaluate
    from graphkin.fitted import Fitted, load
    from graphkin.graphs import Graph
    from graphkin.losses import EnhancedInfoNCE, InfoNCE
    from graphkin.methods import GCA, GRACE, GRAPH_MLP, Method, plus
    from graphkin.presets import method_named
    from graphkin.readers import open_graph
    from graphkin.similarity import Similarity
    from graphkin.splits import Split
    from graphkin.training import fit, fit_repeats

__version__ = "0.1.0"

__all__ = [
    "GCA",
    "GRACE",
    "GRAPH_MLP",
    "EnhancedInfoNCE",
    "Fitted",
    "Graph",
    "InfoNCE",
    "InputError",
    "Method",
    "NodeEmbedder",
    "Similarity",
    "Split",
    "bundled_cora",
    "evaluate",
    "fit",
    "fit_repeats",
    "load",
    "method_named",
    "open_graph",
    "plus",
]

_HOMES = {
    "datasets": ("bundled_cora",),
    "embedder": ("NodeEmbedder",),
    "errors": ("InputError",),
    "evaluation": ("evaluate",),
    "fitted": ("Fitted", "load"),
    "graphs": ("Graph",),
    "losses": ("EnhancedInfoNCE", "InfoNCE"),
    "methods": ("GCA", "GRACE", "GRAPH_MLP", "Method", "plus"),
    "presets": ("method_named",),
    "readers": ("open_graph",),
    "similarity": ("Similarity",),
    "splits": ("Split",),
    "training": ("fit", "fit_repeats"),
}


def __getattr__(name: str) -> Any:
    """PyTorch and all that needs it are imported with the first name that is used."""
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is not None:
        return getattr(importlib.import_module(f"graphkin.{home}"), name)
    try:
        return importlib.import_module(f"graphkin.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"graphkin.{name}":
            raise
        raise AttributeError(f"module 'graphkin' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
