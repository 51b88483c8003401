"""Values of every kind that one may pass by mistake, each made afresh."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

import graphkin

N = 20


def _quantised() -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.rand(N, 3), 0.1, 0, torch.qint8)


def _masked(*shape: int) -> Any:
    values = np.arange(math.prod(shape), dtype=np.float64).reshape(shape)
    return np.ma.masked_equal(values, 3)  # type: ignore[no-untyped-call]


def mixed_networkx() -> Any:
    graph = nx.path_graph(N)
    for node in graph.nodes:
        graph.nodes[node].update({1: 0.5, "a": node} if node % 2 else {"a": 1.5, "label": "x"})
    return graph


class Hostile:
    """Whatever it is asked, it fails."""

    def __array__(self, *given: Any, **named: Any) -> Any:
        raise RuntimeError("no array")

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __repr__(self) -> str:
        return "Hostile()"


PLAIN: tuple[Callable[[], Any], ...] = (
    lambda: None, lambda: True, lambda: 3, lambda: -1, lambda: 0, lambda: 1.5, lambda: math.nan, lambda: math.inf,
    lambda: "", lambda: "x", lambda: b"x", list, dict, tuple, set, object, lambda: lambda *given, **named: None,
    lambda: 10**12, lambda: 2**70, lambda: 1e-300, lambda: 1j, lambda: "\x1b[31m", lambda: "\x00",
    lambda: Path("nowhere") / "file.npz", lambda: [None], lambda: [1, "a"], lambda: {"x": 1}, lambda: range(3), lambda: ...,
    lambda: int, lambda: np.float32(2), lambda: np.int64(2), lambda: np.bool_(True), lambda: "cpu",
    lambda: torch.device("meta"), Hostile, lambda: "cora-bundled", lambda: [0.1, 0.2],
)  # fmt: skip
ARRAYS: tuple[Callable[[], Any], ...] = (
    lambda: np.zeros(N), lambda: np.zeros((N, 3)), lambda: np.zeros((0, 3)), lambda: np.array(3),
    lambda: np.full((N, 3), np.nan), lambda: _masked(N, 3), lambda: _masked(N),
    lambda: np.array([None] * N, dtype=object), lambda: np.array([1, "a", None], dtype=object), lambda: np.full((N, 3), 1j),
    lambda: np.full(N, 2**64 - 1, np.uint64), lambda: np.array(["a"] * N), lambda: np.array(["2024-01-01"] * N, "M8[D]"),
    lambda: np.zeros((N, 3), np.longdouble), lambda: np.eye(N, dtype=np.float16), lambda: np.full((N, N), 1e39),
    lambda: np.zeros(N, dtype=[("a", "f4")]), lambda: np.random.default_rng(0).random((N, 3)),
    lambda: np.arange(2 * N).reshape(2, N) % N, lambda: np.eye(N, dtype=bool),
    lambda: np.broadcast_to(np.float64(1), (N, N)), lambda: np.eye(N)[::-1], lambda: np.eye(N, dtype=">f8"),
)  # fmt: skip
TENSORS: tuple[Callable[[], Any], ...] = (
    lambda: torch.empty(3, 3, device="meta"), lambda: torch.empty(N, N, device="meta"), _quantised,
    lambda: torch.eye(N).to_sparse(), lambda: torch.eye(N).to_sparse_csr(), lambda: torch.eye(N).to_sparse_csc(),
    lambda: torch.eye(N).to_sparse_bsr((2, 2)), lambda: torch.rand(N, 3).half(), lambda: torch.rand(N, 3).bfloat16(),
    lambda: torch.rand(N, N).double(), lambda: torch.ones(N, N, dtype=torch.int32), lambda: torch.arange(N),
    lambda: torch.tensor(3), lambda: torch.rand(N, N, requires_grad=True), lambda: torch.zeros(N, 0),
    lambda: torch.full((N, N), math.nan), lambda: torch.zeros(N, dtype=torch.bool),
    lambda: torch.zeros(N, 3, dtype=torch.complex64), lambda: torch.rand(3, N, N),
    lambda: torch.rand(N, N).to_sparse().requires_grad_(), lambda: torch.full((N, N), 1e38), lambda: torch.rand(N, N) - 0.5,
    lambda: torch.rand(N, N).to(torch.float8_e4m3fn), lambda: torch.nn.Parameter(torch.rand(N, 3)),
    lambda: torch.nested.nested_tensor([torch.rand(2), torch.rand(3)]), lambda: torch.rand(N, N).conj().T,
)  # fmt: skip
THINGS: tuple[Callable[[], Any], ...] = (
    mixed_networkx, lambda: nx.path_graph(N), nx.Graph, lambda: nx.DiGraph([(0, 1)]),
    lambda: scipy.sparse.eye(N, format="csr"), lambda: scipy.sparse.eye_array(N).tocoo(),
    lambda: scipy.sparse.csr_matrix((N, N), dtype=np.complex64), lambda: scipy.sparse.coo_array(np.ones(N)),
    lambda: scipy.sparse.csr_matrix(np.full((N, N), np.nan)), lambda: scipy.sparse.csr_matrix((N, 10**9)),
    lambda: scipy.sparse.eye(N, dtype=np.int8).tolil(), Data, HeteroData, lambda: Data(x=torch.rand(N, 3)),
    lambda: Data(edge_index=torch.zeros(2, 3, dtype=torch.long)), lambda: graphkin.GRACE,
    lambda: Data(x=torch.rand(N, 3), edge_index=torch.zeros(2, 3)), lambda: graphkin.Similarity(), lambda: graphkin.Graph,
    lambda: Data(x="x", edge_index="y"), lambda: Data(x=torch.rand(N, 3), edge_index=torch.tensor([[0], [1]]), y=[0] * N),
    lambda: Data(x=np.zeros((N, 3)), edge_index=np.zeros((2, 3), int), train_mask="x"), lambda: graphkin.plus(graphkin.GCA),
)  # fmt: skip
EVERY = (*PLAIN, *ARRAYS, *TENSORS, *THINGS)
