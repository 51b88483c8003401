"""Node embeddings from a graph without labels: similar nodes attract and dissimilar nodes repel, by how similar they are."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphkin.errors import InputError
    from graphkin.evaluation.evaluate import evaluate
    from graphkin.graphs.datasets import bundled_cora
    from graphkin.graphs.graph import Graph
    from graphkin.graphs.readers import open_graph
    from graphkin.graphs.splits import Split
    from graphkin.methods.method import GCA, GRACE, GRAPH_MLP, Method, plus
    from graphkin.methods.presets import method_named
    from graphkin.objectives.losses import EnhancedInfoNCE, InfoNCE
    from graphkin.similarity import Similarity
    from graphkin.training.embedder import NodeEmbedder
    from graphkin.training.fit import fit, fit_repeats
    from graphkin.training.fitted import Fitted, load

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
    "errors": ("InputError",),
    "evaluation.evaluate": ("evaluate",),
    "graphs.datasets": ("bundled_cora",),
    "graphs.graph": ("Graph",),
    "graphs.readers": ("open_graph",),
    "graphs.splits": ("Split",),
    "methods.method": ("GCA", "GRACE", "GRAPH_MLP", "Method", "plus"),
    "methods.presets": ("method_named",),
    "objectives.losses": ("EnhancedInfoNCE", "InfoNCE"),
    "similarity": ("Similarity",),
    "training.embedder": ("NodeEmbedder",),
    "training.fit": ("fit", "fit_repeats"),
    "training.fitted": ("Fitted", "load"),
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
