"""NumPy archives: dense and sparse features of every type, masks, ids and weights, whole and with one or two faults."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from tests.fuzz.damage import damaged_bytes
from tests.fuzz.draws import Draw, changed, communities
from tests.fuzz.fits import QUICK, fit, some_options
from tests.fuzz.promises import Case

Arrays = dict[str, Any]
DTYPES = ("f2", "f4", "f8", "g", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", ">f4", ">f8", ">i4", ">u8", ">f2")
KEYS = (
    "x", "edge_index", "y", "train_mask", "val_mask", "test_mask", "ids", "edge_weight", "num_nodes", "x_indptr",
    "x_indices", "x_shape", "x_data", "class_names",
)  # fmt: skip
EXTREMES: tuple[Any, ...] = (np.nan, np.inf, -np.inf, 1e300, 3.5e38, -1, 2**31, 2**62, 2**63 - 1, -(2**63), 1e-320, 0)


def valid(draw: Draw) -> Arrays:
    nodes = draw.whole(2, 12) if draw.chance(0.4) else draw.whole(20, 40)
    arrays: Arrays = communities(draw, nodes, min(draw.whole(2, 3), nodes))
    arrays["x"] = arrays["x"].astype(draw.pick(DTYPES))
    if draw.chance(0.3):
        parts = scipy.sparse.csr_matrix(arrays.pop("x").astype(np.float64))
        arrays |= {"x_indptr": parts.indptr, "x_indices": parts.indices, "x_shape": np.array(parts.shape)}
        arrays |= {"x_data": parts.data.astype(draw.pick(("f4", "f8", "i4", "u1")))} if draw.chance(0.7) else {}
    if draw.chance(0.3):
        arrays["edge_weight"] = draw.random.random(arrays["edge_index"].shape[1]) + 0.1
    if draw.chance(0.4):
        shape = (nodes,) if draw.chance(0.5) else (nodes, draw.whole(1, 3))
        part = draw.random.integers(0, 4, shape)
        arrays |= {"train_mask": part == 0, "val_mask": part == 1, "test_mask": part >= 2}
    if draw.chance(0.3):
        arrays["ids"] = draw.pick((np.arange(nodes) + 7, np.array([f"n,{i}" for i in range(nodes)]), np.arange(nodes) / 3))
    if draw.chance(0.2):
        arrays["class_names"] = np.array(["red", "\x1b[31mgreen", "blue"])
    if draw.chance(0.2):
        arrays["num_nodes"] = np.array(nodes)
    return arrays


def strange(draw: Draw, nodes: int) -> Any:
    values: list[Any] = [
        np.array(3), np.array("text"), np.array([]), np.array([[np.nan] * 2] * nodes), np.full((nodes, 2), 1e300),
        np.array([1 + 2j] * nodes), draw.random.integers(-5, 50, (2, 5)), draw.random.random((2, 5)),
        np.zeros((nodes, 2, 2)), np.array(["a"] * nodes), np.full(nodes, 2**62), np.array([True] * nodes),
        np.zeros((2, 3), dtype=np.uint64), np.eye(nodes, dtype=">f4"), np.array(["2024-01-01"] * nodes, "M8[D]"),
        np.full(nodes, 2**64 - 1, dtype=np.uint64), np.full((nodes, 2), 2**64 - 1, dtype=np.uint64),
        np.full((2, 3), 2**64 - 1, dtype=np.uint64), np.full(nodes, np.inf), np.full(nodes, np.nan), np.array([10, 10**10]),
        np.array(2**31 - 1), np.array([None] * nodes, dtype=object), np.zeros(nodes, dtype=[("a", "f4"), ("b", "i4")]),
        np.array([b"\xff"] * nodes), np.zeros((0, 4)), np.zeros((nodes, 0)), np.array(2**63, dtype=np.uint64),
        np.arange(nodes, dtype=np.float16), np.full(nodes, "\x1b[31m"), np.array([-1, 2]),
    ]  # fmt: skip
    return draw.pick(values)


def _nodes(arrays: Arrays) -> int:
    return int(np.size(arrays.get("y", ())) or 3)


def drop(arrays: Arrays, draw: Draw) -> Arrays:
    gone = draw.pick(sorted(arrays)) if arrays else ""
    return {key: value for key, value in arrays.items() if key != gone}


def replaced(arrays: Arrays, draw: Draw) -> Arrays:
    return arrays | {draw.pick(KEYS): strange(draw, _nodes(arrays))}


def reshaped(arrays: Arrays, draw: Draw) -> Arrays:
    key = draw.pick(sorted(arrays)) if arrays else "x"
    value = np.asarray(arrays.get(key, 0))
    shapes: list[Any] = [value.T, value.reshape(-1), value[..., None], value[None], value.reshape(-1)[:-1]]
    return arrays | {key: draw.pick(shapes)}


def retyped(arrays: Arrays, draw: Draw) -> Arrays:
    key = draw.pick(sorted(arrays)) if arrays else "x"
    kinds = (*DTYPES, "c8", "U5", "S5", "M8[s]", "O")
    try:
        return arrays | {key: np.asarray(arrays.get(key, 0)).astype(draw.pick(kinds))}
    except (TypeError, ValueError):
        return arrays


def extreme(arrays: Arrays, draw: Draw) -> Arrays:
    """One entry."""
    key = draw.pick(sorted(arrays)) if arrays else "x"
    value = np.array(arrays.get(key, 0))
    try:
        value.reshape(-1)[draw.whole(0, max(value.size - 1, 0))] = draw.pick(EXTREMES)
    except (ValueError, OverflowError, IndexError, TypeError):
        return arrays
    return arrays | {key: value}


BREAKS: tuple[Callable[[Arrays, Draw], Arrays], ...] = (drop, replaced, replaced, reshaped, retyped, extreme, extreme)


def huge(arrays: Arrays, draw: Draw) -> Arrays:
    """Sizes that no machine has room for, in a file of a few bytes."""
    no_features = {key: value for key, value in arrays.items() if not key.startswith("x")}
    if draw.chance(0.5):
        sparse = {"x_indptr": np.zeros(11, np.int64), "x_indices": np.zeros(0, np.int64), "x_shape": np.array([10, 10**10])}
        return {"edge_index": np.array([[0, 1], [1, 2]])} | sparse
    return {"edge_index": no_features.get("edge_index", np.zeros((2, 1))), "num_nodes": np.array(2**31 - 1)}


def lying_member(path: Path, draw: Draw) -> None:
    """An archive whose ``x`` says of itself what is not true."""
    header = draw.pick((
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 4), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (10, 4, }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-10, 4), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (10, 4), }",
        "{'descr': '<f4', 'shape': (10, 4), }",
        "{'descr': '<U2147483647', 'fortran_order': False, 'shape': (1,), }",
        "[" * 5000,
        "\x1b[31m",
    ))  # fmt: skip
    raw = header.encode("latin-1") + b"\n"
    member = io.BytesIO()
    member.write(b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw + b"\x00" * 160)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x.npy", member.getvalue())


def case(case: Case) -> str:
    draw, path = case.draw, case.folder / "graph.npz"
    arrays = valid(draw)
    nodes: int | None = len(arrays["y"])
    arrays, count = changed(arrays, draw, BREAKS)
    options = some_options(case)
    if draw.chance(0.05):
        arrays, count = huge(arrays, draw), 1
        options += ["--features", "degree"] if "num_nodes" in arrays else []
    lies = draw.chance(0.05)
    np.savez(path, **{key: value for key, value in arrays.items() if key != "x" or not lies})
    if lies:
        lying_member(path, draw)
    damaged = draw.chance(0.08)
    if damaged:
        damaged_bytes(path, draw)
    return fit(case, [path], [*options, *QUICK], nodes=None if lies or damaged or count else nodes)
