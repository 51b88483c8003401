"""A user's graph, checked: nodes with features, undirected edges, labels where there are any."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphkin.errors import GraphError
from graphkin.sparse import SparseMatrix

SPARSE_BELOW = 0.1
"""Features with a smaller share of non-zero entries are kept sparse."""

Features = Tensor | SparseMatrix


@dataclass(frozen=True, eq=False)
class Graph:
    """N nodes with features ``x`` [N, F] and edges ``edge_index`` [2, E].

    Every edge stands there in both directions, sorted by source and target, without duplicates and self loops.
    Build one with :meth:`from_arrays`, :meth:`from_data` or :meth:`from_npz`: they check and repair.
    """

    x: Features
    edge_index: Tensor
    y: Tensor | None = None
    train_mask: Tensor | None = None
    val_mask: Tensor | None = None
    test_mask: Tensor | None = None
    name: str = "graph"
    class_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

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

    def to(self, device: torch.device | str) -> Graph:
        arrays = ("x", "edge_index", "y", "train_mask", "val_mask", "test_mask")
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
        train_mask: Any = None,
        val_mask: Any = None,
        test_mask: Any = None,
        name: str = "graph",
        class_names: tuple[str, ...] = (),
    ) -> Graph:
        """A graph from NumPy, SciPy or PyTorch arrays; features may be sparse."""
        features = _features(x)
        nodes = features.shape[0]
        edges, notes = _edges(edge_index, nodes)
        return cls(
            features,
            edges,
            _labels(y, nodes),
            _mask("train_mask", train_mask, nodes),
            _mask("val_mask", val_mask, nodes),
            _mask("test_mask", test_mask, nodes),
            name,
            class_names,
            notes,
        )

    @classmethod
    def from_data(cls, data: Data, name: str = "graph") -> Graph:
        """A graph from ``torch_geometric.data.Data`` with ``x`` and ``edge_index``."""
        if data.x is None:
            raise GraphError("data.x is missing: node features of shape [nodes, features] are needed.")
        if data.edge_index is None:
            raise GraphError("data.edge_index is missing: edges of shape [2, edges] are needed.")
        masks: dict[str, Any] = {key: _first_split(data.get(key)) for key in ("train_mask", "val_mask", "test_mask")}
        return cls.from_arrays(data.x, data.edge_index, data.get("y"), name=name, **masks)

    @classmethod
    def from_npz(cls, path: str | Path, name: str | None = None) -> Graph:
        """A graph from a NumPy archive, read without unpickling.

        Keys: ``edge_index`` [2, E]; features either dense as ``x`` [N, F] or as compressed sparse rows in ``x_indptr``,
        ``x_indices``, ``x_shape`` and, unless all values are 1, ``x_data``; optionally ``y`` [N] (-1: unknown),
        ``train_mask``, ``val_mask``, ``test_mask`` [N] and ``class_names``.
        """
        path = Path(path)
        arrays = _read_npz(path)
        if "edge_index" not in arrays:
            raise GraphError(f"{path} has no array 'edge_index', found: {', '.join(sorted(arrays)) or 'nothing'}.")
        names = tuple(str(c) for c in arrays.get("class_names", ()))
        masks = {key: arrays.get(key) for key in ("train_mask", "val_mask", "test_mask")}
        x = _npz_features(path, arrays)
        return cls.from_arrays(x, arrays["edge_index"], arrays.get("y"), name=name or path.stem, class_names=names, **masks)


def as_graph(data: Graph | Data) -> Graph:
    if isinstance(data, Graph):
        return data
    if isinstance(data, Data):
        return Graph.from_data(data)
    raise GraphError(f"a graph must be a graphkin.Graph or a torch_geometric.data.Data, found {type(data).__name__}.")


def row_scaled(x: Features) -> Features:
    """Rows divided by their sum; a row of zeros stays."""
    sums = x.row_sums() if isinstance(x, SparseMatrix) else x.sum(1)
    factors = torch.where(sums > 0, 1 / sums, torch.ones_like(sums))
    return x.scale_rows(factors) if isinstance(x, SparseMatrix) else x * factors[:, None]


def smallest_entry(x: Features) -> float:
    values = x.values if isinstance(x, SparseMatrix) else x
    return float(values.min()) if values.numel() else 0.0


def _features(x: Any) -> Features:
    if isinstance(x, SparseMatrix):
        matrix: Features = x
    elif scipy.sparse.issparse(x):
        matrix = SparseMatrix.from_scipy(x)
    elif isinstance(x, Tensor) and x.layout != torch.strided:
        matrix = SparseMatrix(x.detach().to_sparse_coo().coalesce().to_sparse_csr().float())
    else:
        matrix = _dense_features(x)
    nodes, width = matrix.shape
    if nodes == 0:
        raise GraphError("the graph has no nodes: features must have at least one row, found shape (0, ...).")
    if width == 0:
        raise GraphError(f"the graph has no features: features must have at least one column, found ({nodes}, 0).")
    values = matrix.values if isinstance(matrix, SparseMatrix) else matrix
    if not torch.isfinite(values).all():
        raise GraphError(_not_finite(matrix))
    if isinstance(matrix, Tensor) and matrix.count_nonzero() < SPARSE_BELOW * matrix.numel():
        return SparseMatrix.from_dense(matrix)
    return matrix


def _dense_features(x: Any) -> Tensor:
    array = x.detach().cpu() if isinstance(x, Tensor) else _numeric(np.asarray(x), "features")
    if array.dim() != 2:
        raise GraphError(f"features must have shape [nodes, features], found {tuple(array.shape)}.")
    if array.is_complex():
        raise GraphError("features must be real numbers, found complex ones.")
    return array.to(array.dtype if array.dtype == torch.float64 else torch.float32)


def _numeric(array: Any, what: str) -> Tensor:
    if array.dtype.kind not in "biuf":
        raise GraphError(f"{what} must be numbers, found an array of type {array.dtype}.")
    return torch.from_numpy(np.ascontiguousarray(array))


def _not_finite(x: Features) -> str:
    if isinstance(x, SparseMatrix):
        bad = ~torch.isfinite(x.values)
        row, column = int(x.row_of_value[bad][0]), int(x.columns[bad][0])
        count = int(bad.sum())
    else:
        where = (~torch.isfinite(x)).nonzero()
        (row, column), count = where[0].tolist(), len(where)
    return f"features must be finite, found {count} NaN or infinite values, the first at node {row}, column {column}."


def _edges(edge_index: Any, nodes: int) -> tuple[Tensor, tuple[str, ...]]:
    """Both directions of every edge, sorted, and one line on what was repaired."""
    edges = edge_index.detach().cpu() if isinstance(edge_index, Tensor) else _numeric(np.asarray(edge_index), "edge_index")
    if edges.numel() == 0:
        return torch.empty(2, 0, dtype=torch.long), ()
    if edges.dim() != 2 or edges.size(0) != 2:
        raise GraphError(f"edge_index must have shape [2, edges], found {tuple(edges.shape)}.")
    if edges.is_floating_point() or edges.is_complex() or edges.dtype == torch.bool:
        raise GraphError(f"edge_index must hold whole numbers (node indices), found {edges.dtype}.")
    edges = edges.long()
    low, high = int(edges.min()), int(edges.max())
    if low < 0:
        raise GraphError(f"edge_index must hold node indices 0..{nodes - 1}, found the negative index {low}.")
    if high >= nodes:
        raise GraphError(f"edge_index must hold node indices 0..{nodes - 1} ({nodes} nodes), found {high}.")
    source, target = edges
    loops = source == target
    keys = torch.unique(source[~loops] * nodes + target[~loops])
    duplicates = int((~loops).sum()) - keys.numel()
    both = torch.unique(torch.cat([keys, keys % nodes * nodes + keys // nodes]))
    notes = [
        f"{count} {text}"
        for count, text in [
            (duplicates, "duplicate edges merged"),
            (int(loops.sum()), "self loops removed"),
            (both.numel() - keys.numel(), "reverse edges added (made undirected)"),
        ]
        if count
    ]
    return torch.stack([both // nodes, both % nodes]), tuple(notes)


def _labels(y: Any, nodes: int) -> Tensor | None:
    """Class numbers as int64, with -1 where the label is unknown."""
    if y is None:
        return None
    labels = y.detach().cpu() if isinstance(y, Tensor) else _numeric(np.asarray(y), "labels")
    if labels.dim() == 2 and labels.size(1) == 1:
        labels = labels[:, 0]
    if labels.shape != (nodes,):
        raise GraphError(f"labels must have one entry a node ({nodes}), found shape {tuple(labels.shape)}.")
    if labels.is_floating_point():
        labels = torch.where(torch.isnan(labels), torch.full_like(labels, -1), labels)
        if not torch.equal(labels, labels.round()):
            raise GraphError("labels must be whole numbers (class 0, 1, ...; -1 or NaN: unknown), found fractions.")
    return labels.long().clamp(min=-1)


def _mask(what: str, mask: Any, nodes: int) -> Tensor | None:
    if mask is None:
        return None
    tensor = mask.detach().cpu() if isinstance(mask, Tensor) else _numeric(np.asarray(mask), what)
    if tensor.shape != (nodes,):
        raise GraphError(f"{what} must have one entry a node ({nodes}), found shape {tuple(tensor.shape)}.")
    return tensor.bool()


def _first_split(mask: Tensor | None) -> Tensor | None:
    """PyG keeps several public splits as the columns of one mask."""
    return mask[:, 0] if mask is not None and mask.dim() == 2 else mask


def _read_npz(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise GraphError(f"no graph file at {path}.")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (ValueError, OSError, EOFError, BadZipFile, AttributeError, KeyError) as error:
        raise GraphError(f"{path} is not a readable .npz archive of plain arrays: {error}") from error


def _npz_features(path: Path, arrays: dict[str, Any]) -> Any:
    if "x" in arrays:
        return arrays["x"]
    if not {"x_indptr", "x_indices", "x_shape"} <= arrays.keys():
        raise GraphError(
            f"{path} has no features: 'x', or 'x_indptr', 'x_indices' and 'x_shape', found: {', '.join(sorted(arrays))}."
        )
    data = arrays.get("x_data", np.ones(len(arrays["x_indices"]), np.float32))
    try:
        matrix = scipy.sparse.csr_matrix((data, arrays["x_indices"], arrays["x_indptr"]), shape=tuple(arrays["x_shape"]))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        raise GraphError(f"{path}: the sparse features are not valid compressed rows: {error}") from error
    return matrix
