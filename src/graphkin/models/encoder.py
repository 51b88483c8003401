"""The slot for an encoder: what a method asks of it, and what it may offer besides.

An encoder is a frozen dataclass of settings with ``build(num_features, generator) -> nn.Module``. The module is called as
``module(x, view, generator)`` and returns embeddings [num_nodes, d]: ``x`` are the features, ``view`` a
:class:`~graphkin.models.views.View`, ``generator`` the source of all its random numbers in training. Parameters come from the
generator that ``build`` gets, so that one seed gives one result. The rest is optional, and declared on the dataclass.

An encoder may also take something else than features: ``inputs(graph, x, learned)`` computes it once for a graph, from what
``learn(graph, x)`` found on the graph of training. Buffers of the module with the same names keep that, and its ``learned()``
gives it back. A module may have ``after_step()``, ``settle(inputs, view)``, called once after training, and
``embed(inputs, view)``, which then gives the embeddings; with ``embed_in_blocks(inputs, view)`` it gives their rows some at a
time. What it takes it may say in bytes: ``memory(nodes, edges)`` of a step; ``inputs_memory``, what of it may lie in files,
``inputs_in_files``, and ``embedding_memory(nodes, num_features)``; ``parameter_bytes(num_features)``.
:class:`~graphkin.models.encoders.branches.Branches` has them all.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from graphkin.errors import SettingError
from graphkin.graphs.arrays import Features
from graphkin.graphs.graph import Graph
from graphkin.models.views import isolated
from graphkin.support.parallel import ALONE, Peers
from graphkin.support.sparse import SparseMatrix

OPTIONAL: dict[str, Any] = {
    "takes_sparse": False,
    "sees_edges": True,
    "recordable": False,
    "counts_hops": False,
    "shares_rows": False,
}
"""what an encoder may declare, and what holds where it does not: ``x`` may be a SparseMatrix; views need edges; a step on a GPU
never asks the device for a value, so that it may be recorded; the module draws numbers of hops where a view has ``most_hops``;
several processes can hold and encode rows each: ``inputs`` takes them too and gives :class:`~graphkin.models.pieces.Pieces`,
``inputs_memory`` and ``embedding_memory`` take their number, and all noise is drawn by
:func:`graphkin.models.layers.dropped`"""


class Encoder(Protocol):
    def build(self, num_features: int, generator: torch.Generator) -> nn.Module: ...


def declares(encoder: Encoder, name: str) -> bool:
    """Whether an encoder offers one of ``OPTIONAL``."""
    return bool(getattr(encoder, name, OPTIONAL[name]))


def width_of(encoder: Encoder, num_features: int) -> int:
    """The dimensions of its embeddings: as it says in ``width``, or those of two nodes without edges."""
    if hasattr(encoder, "width_for"):
        return int(encoder.width_for(num_features))
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


def trained_widths_of(encoder: Encoder, num_features: int) -> tuple[int, ...]:
    """The widths of the blocks that it gives in training; for most encoders one, the embedding."""
    stated = getattr(encoder, "trained_widths", None)
    return stated() if callable(stated) else (width_of(encoder, num_features),)


def learned_from(encoder: Encoder, graph: Graph, x: Features) -> dict[str, Tensor]:
    """What all runs on a graph share, as buffers of the module."""
    learn = getattr(encoder, "learn", None)
    return learn(graph, x) if callable(learn) else {}


def inputs_of(encoder: Encoder, graph: Graph, x: Features, learned: dict[str, Tensor], among: Peers = ALONE) -> Any:
    """What the module takes for the nodes of a graph: its features, unless the encoder says otherwise.

    Processes ``among`` which rows are shared out call it together, and each gets its own.
    """
    inputs = getattr(encoder, "inputs", None)
    if not callable(inputs):
        return x
    return inputs(graph, x, learned) if among.size == 1 else inputs(graph, x, learned, among)


def inputs_memory_of(encoder: Encoder, nodes: int, num_features: int, processes: int = 1) -> int:
    """Bytes of what the module takes besides the features, in each of the processes that share its rows."""
    return _stated(encoder, "inputs_memory", nodes, num_features, processes) or 0


def inputs_in_files_of(encoder: Encoder, nodes: int, num_features: int, processes: int = 1) -> int:
    """Bytes of them that may lie in files instead."""
    return _stated(encoder, "inputs_in_files", nodes, num_features, processes) or 0


def memory_of(encoder: Encoder, nodes: int, edges: int, width: int) -> int:
    """Bytes of two views in a step: as the encoder says in ``memory``, or as those of layers twice as wide as the output."""
    stated = getattr(encoder, "memory", None)
    return int(stated(nodes, edges)) if callable(stated) else 70 * edges + 4 * nodes * 16 * width


def embedding_memory_of(encoder: Encoder, nodes: int, num_features: int, processes: int = 1) -> int | None:
    """Bytes of embedding so many nodes besides their edges, where the encoder does more than a step does."""
    return _stated(encoder, "embedding_memory", nodes, num_features, processes)


def _stated(encoder: Encoder, name: str, nodes: int, num_features: int, processes: int) -> int | None:
    stated = getattr(encoder, name, None)
    if not callable(stated):
        return None
    return int(stated(nodes, num_features) if processes == 1 else stated(nodes, num_features, processes))


def check_encoder(encoder: object) -> None:
    if not callable(getattr(encoder, "build", None)) or not hasattr(encoder, "__dataclass_fields__"):
        raise SettingError(
            "an encoder must be a dataclass with build(num_features, generator), "
            f"found {encoder.__name__ if isinstance(encoder, type) else type(encoder).__name__}."
        )


def features_for(encoder: Encoder, x: Features) -> Features:
    """Features as the encoder takes them."""
    return x.to_dense() if isinstance(x, SparseMatrix) and not declares(encoder, "takes_sparse") else x
