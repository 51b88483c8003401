"""The slot for an encoder: what a method asks of it, and what it may offer besides.

An encoder is a frozen dataclass of settings with ``build(num_features, generator) -> nn.Module``. The module is called as
``module(x, view, generator)`` and returns embeddings [num_nodes, d]: ``x`` are the features, ``view`` a
:class:`~graphkin.models.views.View`, ``generator`` the source of all its random numbers in training. Parameters come from the
generator that ``build`` gets, so that one seed gives one result. The rest is optional, and declared on the dataclass.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from graphkin.errors import SettingError
from graphkin.graphs.arrays import Features
from graphkin.models.views import isolated
from graphkin.support.sparse import SparseMatrix

OPTIONAL: dict[str, Any] = {
    "takes_sparse": False,
    "sees_edges": True,
    "recordable": False,
    "samples_neighbours": False,
}
"""what an encoder may declare, and what holds where it does not: ``x`` may be a SparseMatrix; views need edges; a step on a GPU
never asks the device for a value, so that it may be recorded; the module has ``of_some_nodes``, and the dataclass ``layers``"""


class Encoder(Protocol):
    def build(self, num_features: int, generator: torch.Generator) -> nn.Module: ...


def declares(encoder: Encoder, name: str) -> bool:
    """Whether an encoder offers one of ``OPTIONAL``."""
    return bool(getattr(encoder, name, OPTIONAL[name]))


def width_of(encoder: Encoder, num_features: int) -> int:
    """The dimensions of its embeddings: as it says in ``width``, or those of two nodes without edges."""
    declared = getattr(encoder, "width", None)
    if isinstance(declared, int):
        return declared
    x = torch.zeros(2, num_features)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        module = encoder.build(num_features, torch.Generator().manual_seed(0)).eval()
        found = module(x, isolated(2), torch.Generator().manual_seed(0))
    if not isinstance(found, Tensor) or found.dim() != 2 or len(found) != 2:
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise SettingError(f"an encoder must return one row for each node, [2, d] for 2 nodes, found {shape}.")
    return found.size(1)


def memory_of(encoder: Encoder, nodes: int, edges: int, width: int) -> int:
    """Bytes of two views in a step: as the encoder says in ``memory``, or as those of layers twice as wide as the output."""
    stated = getattr(encoder, "memory", None)
    return int(stated(nodes, edges)) if callable(stated) else 70 * edges + 4 * nodes * 16 * width


def check_encoder(encoder: object) -> None:
    if not callable(getattr(encoder, "build", None)) or not hasattr(encoder, "__dataclass_fields__"):
        raise SettingError(
            "an encoder must be a dataclass with build(num_features, generator), "
            f"found {encoder.__name__ if isinstance(encoder, type) else type(encoder).__name__}."
        )


def features_for(encoder: Encoder, x: Features) -> Features:
    """Features as the encoder takes them."""
    return x.to_dense() if isinstance(x, SparseMatrix) and not declares(encoder, "takes_sparse") else x
