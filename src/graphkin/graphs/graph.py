"""A user's graph, checked: nodes with features, undirected edges, labels where there are any."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphkin.errors import GraphError, check_text, check_whole, first_line, shown
from graphkin.graphs.arrays import (
    Features,
    as_array,
    checked_edges,
    checked_features,
    checked_labels,
    checked_mask,
    structural_features,
)
from graphkin.graphs.splits import Split
from graphkin.support.files import checked_path, read_arrays, reading
from graphkin.support.sparse import SparseMatrix, check_compressed

MOST_NODES = 2**31 - 1


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """N nodes with features ``x`` [N, F] and edges ``edge_index`` [2, E].

    Every edge stands there in both directions, sorted by source and target, without duplicates and self loops.
    Build one with a ``from_...`` method: they check and repair, and say what they repaired in ``notes``.
    """

    x: Features
    edge_index: Tensor
    edge_weight: Tensor | None = None
    y: Tensor | None = None
    """classes [N], -1 where unknown"""
    train_mask: Tensor | None = None
    val_mask: Tensor | None = None
    test_mask: Tensor | None = None
    public_splits: tuple[Split, ...] = ()
    """the splits that come with the data; the masks are the first of them"""
    ids: np.ndarray | None = None
    """what the user calls the nodes [N]"""
    name: str = "graph"
    class_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    """the columns that the features come from, where they have names"""
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        counts = f"{self.num_nodes} nodes, {self.num_edges} edges, {self.num_features} features, {self.num_classes} classes"
        return f"Graph({self.name!r}: {counts})"

    @property
    def num_nodes(self) -> int:
        return int(self.x.shape[0])

    @property
    def num_features(self) -> int:
        return int(self.x.shape[1])

    @property
    def num_edges(self) -> int:
        """Undirected edges."""
        return self.edge_index.size(1) // 2

    @property
    def num_classes(self) -> int:
        return 0 if self.y is None else int(self.y.max()) + 1

    @functools.cached_property
    def content(self) -> str:
        """A digest of all that a result can depend on: edges, features, labels and splits."""
        features = self.x
        parts: list[Tensor | None] = [self.edge_index, self.edge_weight, self.y]
        if isinstance(features, SparseMatrix):
            parts += [features.csr.crow_indices(), features.csr.col_indices(), features.values]
        else:
            parts.append(features)
        parts += [self.train_mask, self.val_mask, self.test_mask]
        parts += [nodes for split in self.public_splits for nodes in split.parts().values()]
        digest = hashlib.sha256()
        for part in parts:
            if part is not None:
                digest.update(f"{part.dtype} {tuple(part.shape)}".encode() + part.cpu().numpy().tobytes())
            digest.update(b";")
        return digest.hexdigest()[:16]

    def to(self, device: torch.device | str) -> Graph:
        arrays = ("x", "edge_index", "edge_weight", "y", "train_mask", "val_mask", "test_mask")
        present = {name: getattr(self, name) for name in arrays if getattr(self, name) is not None}
        moved: dict[str, Any] = {name: value.to(device) for name, value in present.items()}
        return replace(self, **moved)

    @classmethod
    def from_arrays(
        cls,
        x: Any,
        edge_index: Any,
        y: Any = None,
        *,
        edge_weight: Any = None,
        features: str | None = None,
        num_nodes: int | None = None,
        train_mask: Any = None,
        val_mask: Any = None,
        test_mask: Any = None,
        ids: Any = None,
        name: str = "graph",
        class_names: tuple[str, ...] = (),
    ) -> Graph:
        """A graph from NumPy, SciPy or PyTorch arrays; features may be sparse.

        Without features (``x=None``) say how many nodes there are and which ``features`` to make: "degree" or "positional".
        A mask with several columns is several splits.
        """
        check_text("name", name)
        if not isinstance(class_names, list | tuple):
            raise GraphError(f"class_names must be a list of names, found {shown(class_names)}.")
        given = None if x is None else checked_features(x)
        if given is None:
            if num_nodes is None:
                raise GraphError("the graph has no nodes: features or num_nodes must say how many.")
            check_whole("num_nodes", num_nodes, at_least=1, at_most=MOST_NODES)
        nodes = int(given.shape[0]) if given is not None else int(num_nodes or 0)
        edges = checked_edges(edge_index, nodes, edge_weight)
        if features is not None:
            given = structural_features(edges.pairs, nodes, features)
        if given is None:
            raise GraphError(NO_FEATURES)
        masks = {
            what: checked_mask(what, mask, nodes)
            for what, mask in (("train_mask", train_mask), ("val_mask", val_mask), ("test_mask", test_mask))
        }
        first: dict[str, Any] = {what: None if mask is None else mask[:, 0] for what, mask in masks.items()}
        return cls(
            given,
            edges.pairs,
            edges.weight,
            checked_labels(y, nodes),
            **first,
            public_splits=_splits(list(masks.values())),
            ids=_checked_ids(ids, nodes),
            name=name,
            class_names=tuple(class_names),
            notes=edges.notes,
        )

    @classmethod
    def from_data(cls, data: Data, name: str = "graph", *, features: str | None = None) -> Graph:
        """A graph from ``torch_geometric.data.Data`` with ``edge_index`` and ``x`` (or ``features`` to make)."""
        if not isinstance(data, Data):
            raise GraphError(f"data must be a torch_geometric.data.Data, found {type(data).__name__}.")
        if data.edge_index is None:
            raise GraphError("data.edge_index is missing: edges of shape [2, edges] are needed.")
        if data.x is None and features is None:
            raise GraphError(f"data.x is missing: {NO_FEATURES}")
        weight = data.get("edge_weight")
        y, ignored = data.get("y"), tuple[str, ...]()
        if isinstance(y, Tensor) and (y.is_floating_point() or y.dim() > 1 + (y.dim() == 2 and y.size(1) == 1)):
            y, ignored = None, ("labels ignored: not one class a node",)
        masks: dict[str, Any] = {key: data.get(key) for key in ("train_mask", "val_mask", "test_mask")}
        graph = cls.from_arrays(
            data.x,
            data.edge_index,
            y,
            edge_weight=weight,
            features=features,
            num_nodes=data.num_nodes,
            name=name,
            **masks,
        )
        return replace(graph, notes=graph.notes + ignored)

    @classmethod
    def from_scipy(cls, adjacency: Any, x: Any = None, y: Any = None, **options: Any) -> Graph:
        """A graph from a SciPy sparse adjacency matrix; entries other than 1 are weights."""
        if not scipy.sparse.issparse(adjacency) or adjacency.shape != (adjacency.shape[0],) * 2:
            found = adjacency.shape if scipy.sparse.issparse(adjacency) else type(adjacency).__name__
            raise GraphError(f"the adjacency must be a square SciPy sparse matrix, found {found}.")
        check_compressed(adjacency, "the adjacency")
        entries = scipy.sparse.coo_matrix(adjacency)
        entries.sum_duplicates()
        weighted = bool((entries.data != 1).any())
        edges = np.stack([entries.row, entries.col]).astype(np.int64)
        options = {"num_nodes": adjacency.shape[0], **options}
        return cls.from_arrays(x, edges, y, edge_weight=entries.data if weighted else None, **options)

    @classmethod
    def from_networkx(
        cls, graph: Any, *, label: str = "label", ignore: Sequence[str] = (), features: str | None = None, name: str = "graph"
    ) -> Graph:
        """A graph from NetworkX: numeric node attributes are features, ``label`` the class, "weight" that of an edge."""
        from graphkin.graphs.tables import graph_from_networkx

        return graph_from_networkx(graph, label=label, ignore=ignore, features=features, name=name)

    @classmethod
    def from_tables(
        cls,
        edges: str | Path,
        nodes: str | Path | None = None,
        *,
        label: str = "label",
        ignore: Sequence[str] = (),
        features: str | None = None,
        name: str | None = None,
    ) -> Graph:
        """A graph from CSV, TSV or Parquet: edges (source, target, weight if any) and nodes (id, features, label if any)."""
        from graphkin.graphs.tables import graph_from_tables

        return graph_from_tables(edges, nodes, label=label, ignore=ignore, features=features, name=name)

    @classmethod
    def from_npz(cls, path: str | Path, name: str | None = None, *, features: str | None = None) -> Graph:
        """A graph from a NumPy archive, read without unpickling.

        Keys: ``edge_index`` [2, E] and optionally ``edge_weight`` [E]; features either dense as ``x`` [N, F] or as compressed
        sparse rows in ``x_indptr``, ``x_indices``, ``x_shape`` and, unless all values are 1, ``x_data``; optionally ``y`` [N]
        (-1: unknown), ``train_mask``, ``val_mask``, ``test_mask`` [N] or [N, splits], ``ids`` [N], ``class_names`` and, without
        features, ``num_nodes``.
        """
        path = checked_path(path)
        if not path.is_file():
            raise GraphError(f"no graph file at {path}.")
        with reading(path, "is not a readable .npz archive of plain arrays", GraphError):
            return cls._from_npz(path, read_arrays(path), name or path.stem, features)

    @classmethod
    def _from_npz(cls, path: Path, arrays: dict[str, Any], name: str, features: str | None) -> Graph:
        if "edge_index" not in arrays:
            raise GraphError(f"{path} has no array 'edge_index', found: {', '.join(sorted(arrays)) or 'nothing'}.")
        names = tuple(str(c) for c in np.atleast_1d(arrays.get("class_names", ())))
        optional = ("edge_weight", "train_mask", "val_mask", "test_mask", "ids")
        options: dict[str, Any] = {key: arrays.get(key) for key in optional}
        count = arrays.get("num_nodes")
        if count is not None:
            if count.size != 1 or count.dtype.kind not in "iu":
                raise GraphError(f"num_nodes must be one whole number, found {count.dtype} of shape {count.shape}.")
            options["num_nodes"] = int(count.item())
        return cls.from_arrays(
            _npz_features(path, arrays, needed=features is None),
            arrays["edge_index"],
            arrays.get("y"),
            features=features,
            name=name,
            class_names=names,
            **options,
        )


NO_FEATURES = (
    "the graph has no node features. Give some, or let graphkin make them from the edges: features='degree' (how many "
    "neighbours a node has) or features='positional' (where it lies in the graph); on the command line --features."
)


def as_graph(data: Graph | Data) -> Graph:
    if isinstance(data, Graph):
        return data
    if isinstance(data, Data):
        return Graph.from_data(data)
    raise GraphError(f"a graph must be a graphkin.Graph or a torch_geometric.data.Data, found {type(data).__name__}.")


def _splits(masks: list[Tensor | None]) -> tuple[Split, ...]:
    """One split a column, where all three masks are there; a mask with one column serves them all."""
    known = [mask for mask in masks if mask is not None]
    if len(known) < 3:
        return ()
    count = max(mask.size(1) for mask in known)
    columns = [mask.expand(-1, count) if mask.size(1) == 1 else mask for mask in known]
    if any(mask.size(1) != count for mask in columns):
        found = ", ".join(str(mask.size(1)) for mask in known)
        raise GraphError(f"the masks must have one column a split, or one for all, found {found} columns.")
    splits = []
    for i in range(count):
        train, val, test = (mask[:, i].nonzero()[:, 0] for mask in columns)
        if min(train.numel(), val.numel(), test.numel()) > 0:
            splits.append(Split(train, val, test, name=f"public {i}"))
    return tuple(splits)


def _checked_ids(ids: Any, nodes: int) -> np.ndarray | None:
    if ids is None:
        return None
    if np.ma.is_masked(ids):
        raise GraphError(f"there must be one id a node ({nodes}), found {int(np.ma.getmask(ids).sum())} masked.")
    array = as_array(ids, "ids")
    if array.shape != (nodes,):
        raise GraphError(f"there must be one id a node ({nodes}), found shape {array.shape}.")
    return array


def _npz_features(path: Path, arrays: dict[str, Any], needed: bool) -> Any:
    if "x" in arrays:
        return arrays["x"]
    if not needed:
        return None
    if not {"x_indptr", "x_indices", "x_shape"} <= arrays.keys():
        raise GraphError(
            f"{path} has no features: 'x', or 'x_indptr', 'x_indices' and 'x_shape', found: {', '.join(sorted(arrays))}."
        )
    try:
        data = arrays.get("x_data", np.ones(len(arrays["x_indices"]), np.float32))
        matrix = scipy.sparse.csr_matrix((data, arrays["x_indices"], arrays["x_indptr"]), shape=tuple(arrays["x_shape"]))
        check_compressed(matrix, "features")
    except Exception as error:  # whatever SciPy makes of wrong parts
        raise GraphError(f"{path}: the sparse features are not valid compressed rows: {first_line(error)}") from error
    return matrix
