"""A user's graph, checked: nodes with features, undirected edges, labels where there are any."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from graphkin.errors import GraphError, check_text, shown
from graphkin.graphs.archives import arrays_from_npz
from graphkin.graphs.arrays import (
    Features,
    checked_count,
    checked_edges,
    checked_features,
    checked_ids,
    checked_labels,
    checked_mask,
    no_features,
)
from graphkin.graphs.columns import Column, check_columns
from graphkin.graphs.pyg import MASKS, arrays_from_data, data_from_graph
from graphkin.graphs.splits import Split, splits_of_masks
from graphkin.graphs.structural import structural_features
from graphkin.support.files import checked_path
from graphkin.support.files import reading as reading_file
from graphkin.support.sparse import SparseMatrix, check_compressed

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from graphkin.graphs.held_out import HeldOut
    from graphkin.graphs.tables import Words


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """N nodes with features ``x`` [N, F] and edges ``edge_index`` [2, E].

    Every edge is listed in both directions, sorted by source and target, without duplicates and self loops.
    Make a graph with one of the ``from_...`` methods. They check the input, repair what is safe to repair, and list the repairs
    in ``notes``.
    """

    x: Features
    """A tensor, or a :class:`graphkin.SparseMatrix` where fewer than a tenth of the entries are not zero, whatever was given.
    ``x.to_dense()`` works for both."""
    edge_index: Tensor
    edge_weight: Tensor | None = None
    y: Tensor | None = None
    """Classes [N], -1 where unknown."""
    train_mask: Tensor | None = None
    val_mask: Tensor | None = None
    test_mask: Tensor | None = None
    public_splits: tuple[Split, ...] = ()
    """The splits that come with the data. The masks are the first of them."""
    ids: np.ndarray | None = None
    """The user's names of the nodes [N]."""
    name: str = "graph"
    class_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    """The columns that the features come from, where they have names."""
    notes: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    """The columns of the table that the features come from, and what they are; none where the features are an array."""
    prepared: bool = False
    """The columns were prepared for training: numbers are standardised."""
    made_features: str | None = None
    """The features were made from the edges: "degree" or "positional"."""
    held_out: HeldOut | None = None
    """Edges that :func:`graphkin.hold_out_edges` has taken out."""

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
        """A digest of everything that a result can depend on: edges, features, labels and splits."""
        features = self.x
        parts: list[Tensor | None] = [self.edge_index, self.edge_weight, self.y]
        if isinstance(features, SparseMatrix):
            parts += [features.csr.crow_indices(), features.csr.col_indices(), features.values]
        else:
            parts.append(features)
        parts += [self.train_mask, self.val_mask, self.test_mask]
        parts += [nodes for split in self.public_splits for nodes in split.parts().values()]
        parts += () if self.held_out is None else self.held_out.parts()
        digest = hashlib.sha256()
        if any(column.kind != "count" for column in self.columns):
            digest.update(repr(self.columns).encode())
        for part in parts:
            if part is not None:
                digest.update(f"{part.dtype} {tuple(part.shape)}".encode() + part.cpu().numpy().tobytes())
            digest.update(b";")
        return digest.hexdigest()[:16]

    def to(self, device: torch.device | str) -> Graph:
        arrays = ("x", "edge_index", "edge_weight", "y", *MASKS)
        present = {name: getattr(self, name) for name in arrays if getattr(self, name) is not None}
        moved: dict[str, Any] = {name: value.to(device) for name, value in present.items()}
        return replace(self, **moved)

    def to_data(self, *, sparse: bool = False) -> Data:
        """The same graph as a ``torch_geometric.data.Data`` with x, edge_index and, where known, edge_weight, y and masks.

        ``x`` is dense, as PyTorch Geometric's layers expect; with ``sparse`` a :class:`graphkin.SparseMatrix` becomes a
        ``torch.sparse_csr`` tensor instead. Several public splits become masks of shape [N, splits]. Ids, names and notes are
        left out.
        """
        return data_from_graph(self, sparse=sparse)

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
        class_names: Sequence[str] = (),
        feature_names: Sequence[str] = (),
        columns: Sequence[Column] = (),
        notes: Sequence[str] = (),
    ) -> Graph:
        """A graph from NumPy, SciPy or PyTorch arrays; features may be sparse.

        Without features (``x=None``), say how many nodes there are and which ``features`` to make: "degree" or "positional".
        A mask with several columns is several splits.
        """
        check_text("name", name)
        for what, names in (("class_names", class_names), ("feature_names", feature_names)):
            if not isinstance(names, list | tuple):
                raise GraphError(f"{what} must be a list of names, found {shown(names)}.")
        given = None if x is None else checked_features(x)
        nodes = checked_count(num_nodes) if given is None else int(given.shape[0])
        edges = checked_edges(edge_index, nodes, edge_weight)
        if features is not None:
            given, columns = structural_features(edges.pairs, nodes, features), ()
        if given is None:
            raise GraphError(no_features())
        check_columns(columns, int(given.shape[1]))
        masks = [checked_mask(what, mask, nodes) for what, mask in zip(MASKS, (train_mask, val_mask, test_mask), strict=True)]
        train, val, test = (None if mask is None else mask[:, 0] for mask in masks)
        return cls(
            given,
            edges.pairs,
            edges.weight,
            checked_labels(y, nodes),
            train,
            val,
            test,
            public_splits=splits_of_masks(masks),
            ids=checked_ids(ids, nodes),
            name=name,
            class_names=tuple(class_names),
            feature_names=tuple(feature_names) or tuple(feature for column in columns for feature in column.features),
            notes=(*edges.notes, *notes),
            columns=tuple(columns),
            made_features=features,
        )

    @classmethod
    def from_data(cls, data: Data, name: str = "graph", *, features: str | None = None, weight: str = "edge_weight") -> Graph:
        """A graph from ``torch_geometric.data.Data`` with ``edge_index`` and ``x`` (or ``features`` to make).

        Edge weights come from ``data.edge_weight``; ``weight="edge_attr"`` takes them from ``data.edge_attr`` instead.
        """
        return cls.from_arrays(**arrays_from_data(data, features, weight), features=features, name=name)

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
        cls,
        graph: Any,
        *,
        label: str = "label",
        ignore: Sequence[str] = (),
        columns: Mapping[str, str] | None = None,
        weight: str | None = None,
        features: str | None = None,
        name: str = "graph",
    ) -> Graph:
        """A graph from NetworkX: node attributes are read like columns of a table; ``weight`` names an attribute of edges."""
        from graphkin.graphs.tables import Reading, arrays_from_networkx

        arrays = arrays_from_networkx(
            graph, Reading(label, ignore, columns, weight=weight, needs_features=features is None), name
        )
        return cls.from_arrays(**arrays, features=features, name=name)

    @classmethod
    def from_tables(
        cls,
        edges: str | Path,
        nodes: str | Path | None = None,
        *,
        features: str | None = None,
        name: str | None = None,
        **reading: Unpack[Words],
    ) -> Graph:
        """A graph from CSV, TSV or Parquet: edges (source, target, weight if any) and nodes (id, features, label if any).

        Args:
            label: the column of nodes with the class, if there is one; "label" by default.
            ignore: columns of nodes to leave out.
            columns: what columns of nodes are, such as ``{"zip": "category"}``: number, count, flag, date, category or text.
                By default their values decide (docs/data.md).
            source, target, weight, id: the columns with the ends and weights of edges and the ids of nodes, if they have
                other names.
            bipartite: source 7 and target 7 are different nodes; their ids become "source:7" and "target:7", by the headers.
            features: make features from the edges, "degree" or "positional".
        """
        from graphkin.graphs.tables import UNUSABLE, Reading, arrays_from_tables

        check_text("name", name, optional=True)
        arrays = arrays_from_tables(edges, nodes, Reading(**reading, needs_features=features is None))
        with reading_file(str(edges) if nodes is None else f"{edges} and {nodes}", UNUSABLE, GraphError):
            return cls.from_arrays(**arrays, features=features, name=name or Path(edges).stem)

    @classmethod
    def from_pandas(
        cls, edges: Any, nodes: Any = None, *, features: str | None = None, name: str = "graph", **reading: Unpack[Words]
    ) -> Graph:
        """A graph from DataFrames (pandas, polars) or Arrow tables, with the rules and arguments of :meth:`from_tables`.

        If ``nodes`` has no column "id", its index holds the ids.
        """
        from graphkin.graphs.tables import Reading, arrays_from_frames

        check_text("name", name)
        arrays = arrays_from_frames(edges, nodes, Reading(**reading, needs_features=features is None))
        return cls.from_arrays(**arrays, features=features, name=name)

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
        with reading_file(path, "is not a readable .npz archive of plain arrays", GraphError):
            arrays = arrays_from_npz(path, needs_features=features is None)
            return cls.from_arrays(**arrays, features=features, name=name or path.stem)
