"""NumPy archives as graphs, read without unpickling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from graphkin.errors import GraphError, first_line
from graphkin.support.files import read_arrays
from graphkin.support.sparse import check_compressed

OPTIONAL = ("y", "edge_weight", "train_mask", "val_mask", "test_mask", "ids")
SPARSE_ROWS = ("x_indptr", "x_indices", "x_shape")


def arrays_from_npz(path: Path, *, needs_features: bool) -> dict[str, Any]:
    """What :meth:`Graph.from_arrays` takes."""
    found = read_arrays(path)
    if "edge_index" not in found:
        raise GraphError(f"{path} has no array 'edge_index', found: {', '.join(sorted(found)) or 'nothing'}.")
    arrays: dict[str, Any] = {name: found.get(name) for name in OPTIONAL}
    count = found.get("num_nodes")
    if count is not None:
        if count.size != 1 or count.dtype.kind not in "iu":
            raise GraphError(f"num_nodes must be one whole number, found {count.dtype} of shape {count.shape}.")
        arrays["num_nodes"] = int(count.item())
    arrays["class_names"] = tuple(str(name) for name in np.atleast_1d(found.get("class_names", ())))
    return arrays | {"x": _features(path, found, needs_features), "edge_index": found["edge_index"]}


def _features(path: Path, found: dict[str, np.ndarray], needed: bool) -> Any:
    if "x" in found:
        return found["x"]
    if not needed:
        return None
    if not set(SPARSE_ROWS) <= found.keys():
        raise GraphError(
            f"{path} has no features: 'x', or 'x_indptr', 'x_indices' and 'x_shape', found: {', '.join(sorted(found))}."
        )
    try:
        data = found.get("x_data", np.ones(len(found["x_indices"]), np.float32))
        matrix = scipy.sparse.csr_matrix((data, found["x_indices"], found["x_indptr"]), shape=tuple(found["x_shape"]))
        check_compressed(matrix, "features")
    except Exception as error:  # whatever SciPy makes of wrong parts
        raise GraphError(f"{path}: the sparse features are not valid compressed rows: {first_line(error)}") from error
    return matrix
