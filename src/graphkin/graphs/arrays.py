"""The checks of a user's arrays. Each is repaired where that is safe, and otherwise refused in one line."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from graphkin.errors import GraphError, SettingError, argument, check_whole, first_line, shown
from graphkin.support.sparse import SparseMatrix

SPARSE_BELOW = 0.1
"""Features with a smaller share of non-zero entries are stored as a sparse matrix."""
MOST_CLASSES = 100_000
MOST_FEATURES = 2**24
MOST_NODES = 2**31 - 1

Features = Tensor | SparseMatrix


def no_labels() -> str:
    return f"the graph has none: name their column when the graph is read ({argument('label', 'kind')}), or give y."


def no_features() -> str:
    return (
        "the graph has no node features. Give some, or let graphkin make them from the edges: "
        f"{argument('features', 'degree')} (how many neighbours a node has) or {argument('features', 'positional')} (where it "
        "lies in the graph)."
    )


def checked_features(x: Any) -> Features:
    if isinstance(x, SparseMatrix):
        matrix: Features = x
    elif scipy.sparse.issparse(x):
        if x.ndim != 2:
            raise GraphError(f"features must have shape [nodes, features], found {x.shape}.")
        if x.dtype.kind not in "biuf":
            raise GraphError(f"features must be numbers, found a matrix of type {x.dtype}.")
        _check_width(x.shape[1])
        matrix = SparseMatrix.from_scipy(x)
    elif isinstance(x, Tensor) and x.layout != torch.strided:
        matrix = _sparse_features(x)
    else:
        matrix = _dense_features(x)
    nodes, width = matrix.shape
    _check_width(width)
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


def _check_width(width: int) -> None:
    if width > MOST_FEATURES:
        raise GraphError(f"a graph may have at most {MOST_FEATURES:,} features per node, found {width:,}.")


def _dense_features(x: Any) -> Tensor:
    """In float32, in which everything is computed."""
    array = numeric(x, "features")
    if array.dim() != 2:
        raise GraphError(f"features must have shape [nodes, features], found {tuple(array.shape)}.")
    return array.to(torch.float32)


def _sparse_features(x: Tensor) -> SparseMatrix:
    if x.is_nested or x.dim() != 2 or x.is_meta or x.is_complex():
        raise GraphError(f"sparse features must be a matrix of real numbers, found a {x.layout} tensor of {x.dtype}.")
    try:
        return SparseMatrix(x.detach().cpu().to_sparse_coo().coalesce().float().to_sparse_csr())
    except (RuntimeError, ValueError) as error:  # a layout that PyTorch cannot turn into another
        raise GraphError(f"features of the layout {x.layout} cannot be read: {first_line(error)}") from error


def numeric(values: Any, what: str) -> Tensor:
    """A tensor of real numbers on the CPU from whatever holds them."""
    if isinstance(values, Tensor):
        return plain_tensor(values, what)
    array = as_array(values, what)
    if array.dtype.kind not in "biuf":
        raise GraphError(f"{what} must be numbers, found an array of type {array.dtype}.")
    if np.ma.is_masked(values):
        raise GraphError(f"{what} must be complete, found {int(np.ma.getmask(values).sum())} masked values.")
    if array.dtype == np.longdouble:
        array = array.astype(np.float64)
    if array.dtype == np.uint64:
        array = array.astype(np.int64 if not array.size or array.max() < 2**63 else np.float64)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def as_array(values: Any, what: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except Exception as error:  # what a user's object does when it is asked for an array
        raise GraphError(f"{what} must be an array, found {type(values).__name__} ({first_line(error)}).") from error


def checked_device(device: Any) -> torch.device:
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise SettingError(f"device must be a torch.device or its name, found {shown(device)}.") from error
    if found.type == "meta" or (found.type == "cuda" and not torch.cuda.is_available()):
        raise SettingError(f"device must be one that PyTorch can compute on here, found {found}.")
    return found


def plain_tensor(tensor: Tensor, what: str) -> Tensor:
    kinds = {
        "meta": tensor.is_meta,
        "quantised": tensor.is_quantized,
        "complex": tensor.is_complex(),
        "nested": tensor.is_nested,
    }
    if any(kinds.values()) or tensor.layout != torch.strided:
        kind = next((name for name, holds in kinds.items() if holds), "sparse")
        raise GraphError(f"{what} must be real numbers in a plain tensor, found a {kind} one ({tensor.dtype}).")
    return tensor.detach().cpu()


def _not_finite(x: Features) -> str:
    if isinstance(x, SparseMatrix):
        bad = ~torch.isfinite(x.values)
        row, column = int(x.row_of_value[bad][0]), int(x.columns[bad][0])
        count = int(bad.sum())
    else:
        where = (~torch.isfinite(x)).nonzero()
        (row, column), count = where[0].tolist(), len(where)
    return f"features must be finite, found {count} NaN or infinite values, the first at node {row}, column {column}."


class Edges(NamedTuple):
    """Both directions of every edge, sorted by source and target, without duplicates and self loops."""

    pairs: Tensor
    weight: Tensor | None
    notes: tuple[str, ...]
    """The repairs."""


def checked_edges(edge_index: Any, nodes: int, edge_weight: Any = None) -> Edges:
    """Weights of duplicates are added. Where both directions are given, the edge has their mean as its weight."""
    edges = numeric(edge_index, "edge_index")
    weight = None if edge_weight is None else _weights(edge_weight, edges.numel() // 2)
    if edges.numel() == 0:
        return Edges(torch.empty(2, 0, dtype=torch.long), None if weight is None else torch.empty(0), ())
    if edges.dim() != 2 or edges.size(0) != 2:
        raise GraphError(f"edge_index must have shape [2, edges], found {tuple(edges.shape)}.")
    if edges.is_floating_point() or edges.dtype == torch.bool:
        raise GraphError(f"edge_index must hold whole numbers (node indices), found {edges.dtype}.")
    edges = edges.long()
    low, high = int(edges.min()), int(edges.max())
    if low < 0:
        raise GraphError(f"edge_index must hold node indices 0..{nodes - 1}, found the negative index {low}.")
    if high >= nodes:
        raise GraphError(f"edge_index must hold node indices 0..{nodes - 1} ({nodes} nodes), found {high}.")
    return _undirected(edges, weight, nodes)


def _undirected(edges: Tensor, weight: Tensor | None, nodes: int) -> Edges:
    source, target = edges
    no_loop = source != target
    loops = int((~no_loop).sum())
    keys = (source * nodes + target)[no_loop]
    kept = None if weight is None else weight[no_loop]
    given = keys.numel()
    keys, kept = _merged(keys, kept, "sum")
    one_way = keys.numel()
    reversed_keys = keys % nodes * nodes + keys // nodes
    both, merged = _merged(torch.cat([keys, reversed_keys]), None if kept is None else torch.cat([kept, kept]), "mean")
    notes = [
        f"{count:,} {what}{'s' * (count > 1)} {done}"
        for count, what, done in [
            (given - one_way, "duplicate edge", "merged"),
            (loops, "self loop", "removed"),
            (both.numel() - one_way, "reverse edge", "added to make it undirected"),
        ]
        if count
    ]
    return Edges(torch.stack([both // nodes, both % nodes]), merged, tuple(notes))


def _merged(keys: Tensor, weight: Tensor | None, how: str) -> tuple[Tensor, Tensor | None]:
    if weight is None:
        return torch.unique(keys), None
    unique, place = torch.unique(keys, return_inverse=True)
    return unique, torch.zeros(len(unique)).scatter_reduce_(0, place, weight, how, include_self=False)


def _weights(edge_weight: Any, edges: int) -> Tensor:
    weight = numeric(edge_weight, "edge weights")
    if weight.shape != (edges,):
        raise GraphError(f"there must be one weight per edge ({edges}), found shape {tuple(weight.shape)}.")
    kept = weight.float()
    bad = ~(torch.isfinite(kept) & (kept > 0))
    if bad.any():
        raise GraphError(
            f"edge weights must be finite and > 0, found {int(bad.sum())} others, the first {float(weight[bad][0])} (float32)."
        )
    return kept


def checked_labels(y: Any, nodes: int) -> Tensor | None:
    """Class numbers as int64, with -1 where the label is unknown: negative, NaN or masked."""
    if y is None:
        return None
    labels = numeric(np.ma.filled(y, -1) if np.ma.is_masked(y) and y.dtype.kind in "if" else y, "labels")
    if labels.dim() == 2 and labels.size(1) == 1:
        labels = labels[:, 0]
    if labels.shape != (nodes,):
        raise GraphError(f"labels must have one entry per node ({nodes}), found shape {tuple(labels.shape)}.")
    if labels.is_floating_point():
        labels = torch.where(torch.isnan(labels), torch.full_like(labels, -1), labels).double()
        if not torch.equal(labels, labels.round()) or bool(labels.isinf().any()):
            kind = "infinite ones" if labels.isinf().any() else "fractions"
            raise GraphError(f"labels must be whole numbers (class 0, 1, ...; -1 or NaN: unknown), found {kind}.")
    if labels.numel() and float(labels.max()) >= MOST_CLASSES:
        raise GraphError(f"labels must be class numbers below {MOST_CLASSES:,}, found {labels.max().item():.0f}.")
    return labels.clamp(min=-1).long() if labels.dtype != torch.bool else labels.long()


def checked_mask(what: str, mask: Any, nodes: int) -> Tensor | None:
    """Booleans [N, splits]."""
    if mask is None:
        return None
    tensor = numeric(mask, what)
    if tensor.dim() not in (1, 2) or tensor.size(0) != nodes or tensor.numel() == 0:
        raise GraphError(f"{what} must have one entry per node ({nodes}), found shape {tuple(tensor.shape)}.")
    return tensor.bool().reshape(nodes, -1)


def checked_count(num_nodes: int | None) -> int:
    if num_nodes is None:
        raise GraphError("the graph has no nodes: features or num_nodes must say how many.")
    check_whole("num_nodes", num_nodes, at_least=1, at_most=MOST_NODES)
    return int(num_nodes)


def checked_ids(ids: Any, nodes: int) -> np.ndarray | None:
    if ids is None:
        return None
    if np.ma.is_masked(ids):
        raise GraphError(f"there must be one id per node ({nodes}), found {int(np.ma.getmask(ids).sum())} masked.")
    array = as_array(ids, "ids")
    if array.shape != (nodes,):
        raise GraphError(f"there must be one id per node ({nodes}), found shape {array.shape}.")
    return array


def row_scaled(x: Features) -> Features:
    """Rows divided by their sum; a row of zeros stays as it is."""
    sums = x.row_sums() if isinstance(x, SparseMatrix) else x.sum(1)
    factors = torch.where(sums > 0, 1 / sums, torch.ones_like(sums))
    return x.scale_rows(factors) if isinstance(x, SparseMatrix) else x * factors[:, None]


def length_of_rows(x: Features) -> Tensor:
    squares = x.with_values(x.values.square()).row_sums() if isinstance(x, SparseMatrix) else x.square().sum(1)
    return squares.sqrt()


def largest_of_rows(x: Features) -> Tensor:
    """The largest absolute entry of every row."""
    if isinstance(x, Tensor):
        return x.abs().amax(dim=1)
    return x.values.new_zeros(x.shape[0]).scatter_reduce_(0, x.row_of_value, x.values.abs(), "amax")


def smallest_entry(x: Features) -> float:
    values = x.values if isinstance(x, SparseMatrix) else x
    return float(values.min()) if values.numel() else 0.0


def inverse(values: Tensor) -> Tensor:
    """1/x, and 0 where x is 0."""
    return torch.where(values > 0, 1 / values, torch.zeros_like(values))
