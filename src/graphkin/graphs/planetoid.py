"""Planetoid's files, read without unpickling.

A pickle is a program for a small stack machine, and it may call whatever it names. These files need a few instructions and six
names, so our own machine knows only those and refuses all others. A name is text to it. It looks up, imports and calls nothing.
"""

from __future__ import annotations

import itertools
import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from graphkin.errors import GraphError
from graphkin.graphs.graph import Graph
from graphkin.support.files import reading

VALIDATION = 500
"""The number of validation nodes, which follow the training nodes."""
ARRAY, NDARRAY, DTYPE = "numpy.core.multiarray _reconstruct", "numpy ndarray", "numpy dtype"
MATRIX = "scipy.sparse.csr csr_matrix"
DICTIONARY, LIST = "collections defaultdict", "__builtin__ list"
NAMES = {ARRAY, NDARRAY, DTYPE, MATRIX, DICTIONARY, LIST}
NUMBERS = ("i4", "f4")
MOST = 2**28
"""The most entries of a matrix: the sparse rows of a small file can promise more than fits into memory."""

T = TypeVar("T")


@dataclass(eq=False)
class Named:
    """A name in a file, and what the file wants built with it: kept, not built."""

    name: str
    arguments: Any = None
    state: Any = None


def read_planetoid(folder: Path, name: str, files: Mapping[str, bytes]) -> Graph:
    """The graph in the files ``ind.NAME.PART``, of which ``files`` has the bytes; ``folder`` is where they lie.

    The first nodes are the rows of ``allx``, the test nodes those of ``tx`` in the order of ``test.index``. A node that is in
    neither (Citeseer has 15) has no features and class 0. The first rows, as many as ``y`` has, are the training set.
    """

    def part(kind: str, read: Callable[[bytes], T]) -> T:
        path = folder / f"ind.{name}.{kind}"
        with reading(path, "is not a file of Planetoid", GraphError):
            return read(files[path.name])

    x, tx, allx = (part(kind, _features) for kind in ("x", "tx", "allx"))
    y, ty, ally = (part(kind, _classes) for kind in ("y", "ty", "ally"))
    nodes, edges = part("graph", _edges)
    test = part("test.index", _whole_numbers)
    with reading(folder, "does not hold a graph of Planetoid", GraphError):
        if not (len(x) == len(y) <= len(allx) == len(ally) and len(tx) == len(ty) == len(test)):
            shapes = ", ".join(str(array.shape) for array in (x, y, allx, ally, tx, ty, test))
            raise GraphError(f"x and y, allx and ally, tx, ty and test.index must fit together, found the shapes {shapes}.")
        if not np.array_equal(np.unique(test), np.sort(test)) or test.min() < len(allx) or test.max() + 1 != nodes:
            raise GraphError(f"test.index must name nodes from {len(allx)} to the last, {nodes - 1}, each once.")
        train, val, tested = np.zeros((3, nodes), bool)
        train[: len(y)] = True
        val[len(y) : min(len(y) + VALIDATION, len(allx))] = True
        tested[test] = True
        features, classes = _joined(nodes, allx, tx, test), _joined(nodes, ally, ty, test).argmax(axis=1)
        return Graph.from_arrays(features, edges, classes, train_mask=train, val_mask=val, test_mask=tested, name=name)


def _joined(nodes: int, first: np.ndarray, tested: np.ndarray, test: np.ndarray) -> np.ndarray:
    if first.shape[1] != tested.shape[1] or nodes * first.shape[1] > MOST:
        raise GraphError(f"{nodes} nodes cannot have rows of {first.shape[1]} and {tested.shape[1]} numbers.")
    rows = np.zeros((nodes, first.shape[1]), first.dtype)
    rows[: len(first)] = first
    rows[test] = tested
    return rows


def _features(data: bytes) -> np.ndarray:
    """Compressed rows, as a dense array. SciPy is not asked: on some wrong ones it crashes, even after its own check."""
    match follow(data):
        case Named(name, (), {"_shape": (int(rows), int(columns)), "data": values, "indices": indices, "indptr": starts}) if (
            name == MATRIX and 0 <= rows * columns <= MOST
        ):
            values, indices, starts = _array(values), _array(indices), _array(starts).astype(np.int64)
            counts = np.diff(starts)
            fit = len(counts) == rows and starts[0] == 0 and indices.shape == values.shape == (starts[-1],)
            if fit and counts.min(initial=0) >= 0 and indices.min(initial=0) >= 0:
                dense = np.zeros((rows, columns), np.float32)
                np.add.at(dense, (np.repeat(np.arange(rows), counts), indices), values)
                return dense
    raise GraphError(f"it must be a sparse matrix in compressed rows with at most {MOST:,} entries.")


def _classes(data: bytes) -> np.ndarray:
    """One row per node, with a 1 in the column of its class."""
    rows = _array(follow(data))
    if rows.ndim != 2:
        raise GraphError(f"it must be an array of two dimensions, found shape {rows.shape}.")
    return rows


def _edges(data: bytes) -> tuple[int, np.ndarray]:
    """How many nodes there are, and the edges [2, E] from their lists of neighbours."""
    links = follow(data)
    if not isinstance(links, dict) or not all(type(targets) is list for targets in links.values()):
        raise GraphError("it must be a dictionary of lists.")
    degrees = [len(targets) for targets in links.values()]
    if sum(degrees) > len(data):  # the same list again and again
        raise GraphError(f"{len(data):,} bytes cannot hold {sum(degrees):,} neighbours.")
    if not all(type(node) is int for node in itertools.chain(links, *links.values())):
        raise GraphError("nodes and their neighbours must be whole numbers.")
    source = np.repeat(np.fromiter(links, np.int64), degrees)
    return len(links), np.stack([source, np.fromiter(itertools.chain.from_iterable(links.values()), np.int64)])


def _whole_numbers(data: bytes) -> np.ndarray:
    return np.array([int(line) for line in data.split()], np.int64)


def _array(thing: Any) -> np.ndarray:
    """Our own array of the bytes, shape and type that the file gives."""
    match thing:
        case Named(name, _, (1, tuple(shape), Named(kind, (str(number), 0, 1), (3, "<", *_)), False, str(text))) if (
            name == ARRAY and kind == DTYPE and number in NUMBERS and min(shape, default=-1) >= 0
        ):
            return np.frombuffer(text.encode("latin-1"), f"<{number}").reshape(shape)
    raise GraphError(f"an array must be of little-endian numbers ({' or '.join(NUMBERS)}), with its shape and bytes.")


def follow(data: bytes) -> Any:
    """What a pickle describes, in numbers, texts, tuples, lists, dictionaries and ``Named``."""
    machine = _Machine()
    for instruction, value, _ in pickletools.genops(data):
        machine.step(instruction.name, value)
    (result,) = machine.stack
    return result


class _Machine:
    """The stack, its marks and its memory: what the instructions of a pickle work on."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memory: dict[Any, Any] = {}

    def step(self, instruction: str, value: Any) -> None:
        stack = self.stack
        match instruction:
            case "BININT2" | "BININT1" | "BININT" | "SHORT_BINSTRING" | "BINSTRING":
                stack.append(value)
            case "EMPTY_LIST":
                stack.append([])
            case "EMPTY_DICT":
                stack.append({})
            case "EMPTY_TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3":
                size = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}[instruction]
                stack.append(tuple(self._cut(len(stack) - size)))
            case "TUPLE":
                stack.append(tuple(self._cut(self.marks.pop())))
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[instruction])
            case "GLOBAL" if value in NAMES:
                stack.append(Named(value))
            case "LONG_BINPUT" | "BINPUT":
                self.memory[value] = stack[-1]
            case "BINGET":
                stack.append(self.memory[value])
            case "MARK":
                self.marks.append(len(stack))
            case "PROTO" | "STOP":
                pass
            case _:
                self._fill(instruction, value)

    def _fill(self, instruction: str, value: Any) -> None:
        """Instructions that change what is below the top of the stack."""
        stack = self.stack
        match instruction:
            case "APPEND":
                item = stack.pop()
                stack[-1].append(item)
            case "APPENDS":
                items = self._cut(self.marks.pop())
                stack[-1].extend(items)
            case "SETITEMS":
                items = self._cut(self.marks.pop())
                # Python crashes when it takes the hash of a deeply nested tuple
                if not all(isinstance(key, int | str) for key in items[::2]):
                    raise GraphError("keys of a dictionary must be numbers or strings.")
                stack[-1].update(zip(items[::2], items[1::2], strict=True))
            case "REDUCE" | "NEWOBJ":
                arguments, name = stack.pop(), stack.pop().name
                stack.append({} if name == DICTIONARY else Named(name, arguments))
            case "BUILD":
                state = stack.pop()
                stack[-1].state = state
            case other:
                found = ".".join(str(value).split())[:100] if other in ("GLOBAL", "INST") else f"the instruction {other}"
                raise GraphError(f"only arrays, sparse rows and lists may be in it, found {found}: it is not read.")

    def _cut(self, start: int) -> list[Any]:
        if not 0 <= start <= len(self.stack):
            raise GraphError("it takes more from its stack than there is.")
        items = self.stack[start:]
        del self.stack[start:]
        return items
