from __future__ import annotations

import builtins
import hashlib
import io
import os
import pickle
import random
import struct
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from graphkin import Graph
from graphkin.errors import GraphError
from graphkin.graphs import catalogue
from graphkin.graphs.catalogue import DATASETS
from graphkin.graphs.datasets import load_dataset
from graphkin.graphs.planetoid import follow, read_planetoid

HERE = Path("here")
PICKLES = ("x", "tx", "allx", "y", "ty", "ally", "graph")


def old_pickle(thing: object) -> bytes:
    """A pickle like Planetoid's: texts and bytes as Python 2 wrote them, NumPy and SciPy under the names that they had then."""

    def save_string(pickler: Any, text: str | bytes) -> None:
        content = text.encode("latin-1") if isinstance(text, str) else text
        size = len(content)
        pickler.write((b"U" + bytes([size]) if size < 256 else b"T" + struct.pack("<i", size)) + content)
        pickler.memoize(text)

    file = io.BytesIO()
    pickler: Any = pickle._Pickler(file, protocol=2)
    pickler.dispatch = {**pickler.dispatch, str: save_string, bytes: save_string}
    pickler.dump(thing)
    renamed = file.getvalue().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")
    return renamed.replace(b"cscipy.sparse._csr\n", b"cscipy.sparse.csr\n")


FEATURES = np.arange(40, dtype=np.float32).reshape(10, 4) % 3
CLASSES = np.eye(3, dtype=np.int32)[np.arange(10) % 3]
LINKS = {0: [1, 9], 1: [0, 0, 2], 2: [2, 1], 3: [4], 4: [3], 5: [], 6: [10], 7: [8], 8: [7], 9: [0], 10: [6]}


def small_files(**changes: bytes) -> dict[str, bytes]:
    """Eight nodes and two test nodes, 10 and 8, in this order; node 9 is in no file but that of the edges."""
    sparse = scipy.sparse.csr_matrix(FEATURES)
    files = {
        "x": old_pickle(sparse[:3]),
        "tx": old_pickle(sparse[8:]),
        "allx": old_pickle(sparse[:8]),
        "y": old_pickle(CLASSES[:3]),
        "ty": old_pickle(CLASSES[8:]),
        "ally": old_pickle(CLASSES[:8]),
        "graph": old_pickle(defaultdict(list, LINKS)),
        "test.index": b"10\n8\n",
    }
    return {f"ind.cora.{part}": content for part, content in {**files, **changes}.items()}


def read(**changes: bytes) -> Graph:
    return read_planetoid(HERE, "cora", small_files(**changes))


def test_a_small_graph() -> None:
    graph = read()
    assert isinstance(graph.x, torch.Tensor)
    order = [*range(8), 9, 10, 8]
    assert np.array_equal(graph.x.numpy(), np.vstack([FEATURES, np.zeros((1, 4))])[order])
    assert graph.y is not None and graph.y.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 0, 0, 2]
    pairs = {(0, 1), (0, 9), (1, 2), (3, 4), (6, 10), (7, 8)}
    assert {(a, b) for a, b in graph.edge_index.T.tolist() if a < b} == pairs
    (split,) = graph.public_splits
    assert [nodes.tolist() for nodes in split.parts().values()] == [[0, 1, 2], [3, 4, 5, 6, 7], [8, 10]]


@pytest.mark.data
@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed"])
def test_the_published_graphs_are_as_pytorch_geometric_reads_them(name: str, data_root: Path) -> None:
    from torch_geometric.io import read_planetoid_data

    folder = data_root / DATASETS[name].folder / "raw"
    theirs = read_planetoid_data(str(folder), name)
    ours = read_planetoid(folder, name, {file: (folder / file).read_bytes() for file in DATASETS[name].files})
    assert torch.equal(ours.x if isinstance(ours.x, torch.Tensor) else ours.x.to_dense(), theirs.x)
    for mine, other in ((ours.y, theirs.y), (ours.train_mask, theirs.train_mask), (ours.val_mask, theirs.val_mask)):
        assert mine is not None and torch.equal(mine, other)
    assert ours.test_mask is not None and torch.equal(ours.test_mask, theirs.test_mask)
    assert ours.content == Graph.from_data(theirs).content


class Call:
    """Pickled, it is a call: whoever unpickles it makes the call."""

    def __init__(self, function: Any, *arguments: object) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("part", PICKLES)
@pytest.mark.parametrize("function", ["os.system", "builtins.eval", "builtins.exec", "numpy.save", "pathlib.Path.touch"])
def test_a_file_that_calls_something_is_refused_though_its_hash_matches(
    part: str, function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw, trap = tmp_path / "raw", tmp_path / "trap.npy"
    raw.mkdir()
    code = f"__import__('pathlib').Path({str(trap)!r}).touch()"
    call = {
        "os.system": Call(os.system, f"touch {trap}"),
        "builtins.eval": Call(builtins.eval, code),
        "builtins.exec": Call(builtins.exec, code),
        "numpy.save": Call(np.save, str(trap), 1),
        "pathlib.Path.touch": Call(Path.touch, trap),
    }[function]
    monkeypatch.setattr(catalogue, "cache_folder", lambda: tmp_path / "cache")
    for protocol in range(6):
        files = small_files(**{part: pickle.dumps(call, protocol)})
        hashes = {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
        monkeypatch.setitem(DATASETS, "cora", replace(DATASETS["cora"], files=hashes))
        for file, content in files.items():
            (raw / file).write_bytes(content)
        with pytest.raises(GraphError, match=rf"ind\.cora\.{part}: .*found "):
            load_dataset("cora", tmp_path)
        assert not trap.exists()
    pickle.loads(pickle.dumps(call))
    assert trap.exists(), "the trap works"


def test_a_refusal_names_what_was_found() -> None:
    for name in ("posix.system", "numpy.load", "scipy.sparse.csr.csc_matrix", "copyreg.__newobj__"):
        module, _, last = name.rpartition(".")
        with pytest.raises(GraphError, match=rf"^{HERE / 'ind.cora.y'}: .* found {name}"):
            read(y=f"c{module}\n{last}\n(tR.".encode())


BROKEN = "is not a file of Planetoid"
NUMPY, LIST = b"cnumpy\ndtype\n", b"c__builtin__\nlist\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x80\x02P1\n.", "the instruction PERSID"),
        (b"\x80\x02NQ.", "the instruction BINPERSID"),
        (b"\x80\x02\x82\x01.", "the instruction EXT1"),
        (b"(iposix\nsystem\n.", "found posix.system"),
        (b"cposix\nsys\rtem \n.", "found posix.sys.tem: it is not read"),
        (b"(" + NUMPY + b"o.", "the instruction OBJ"),
        (b"\x80\x04\x8c\x05posix\x8c\x06system\x93.", "the instruction SHORT_BINUNICODE"),
        (b"\x80\x02})" + b"\x85" * 100_000 + b"Nu.", BROKEN),
        (b"\x80\x02}()" + b"\x85" * 100_000 + b"Nu.", "keys of a dictionary must be numbers or strings"),
        (b"\x80\x02)" + b"\x85" * 100_000 + b".", "an array must be"),
        (b"\x80\x02Nr\xff\xff\xff\xff.", "an array must be"),
        (b"\x80\x02T\xff\xff\xff\x7f.", BROKEN),
        (b"\x80\x02]q\x00h\x00a.", "an array must be"),
        (NUMPY + b"N(U\x0c__defaults__Ntb.", BROKEN),
        (NUMPY + b"}U\x04nameNs.", "the instruction SETITEM"),
        (LIST + b"Na.", BROKEN),
        (b"NNR.", BROKEN),
        (b"]Nb.", BROKEN),
        (b"K\x01(K\x02e.", BROKEN),
        (b"\x85.", "takes more from its stack than there is"),
        (b"NN.", BROKEN),
        (b".", BROKEN),
        (b"", BROKEN),
        (b"h\x05.", BROKEN),
        (b"t.", BROKEN),
    ],
)
def test_tricks_and_nonsense(content: bytes, reason: str) -> None:
    """Some of these make Python's own unpickler crash, take all memory or change the classes it knows."""
    with pytest.raises(GraphError, match=r"ind\.cora\.y(:.*)? " + reason):
        read(y=content)


def test_arrays_and_matrices_that_are_not_what_they_say() -> None:
    sparse, y = scipy.sparse.csr_matrix(FEATURES[:3]), CLASSES[:3]
    for wrong in (y.astype(np.int64), y.astype(">i4"), np.asfortranarray(y), y.astype(object), y.tolist(), y[0], sparse):
        with pytest.raises(GraphError, match=r"ind\.cora\.y[: ]"):
            read(y=old_pickle(wrong))
    shape = old_pickle(y).index(b"K\x03K\x03")
    for sides in (b"K\x03K\x04", b"K\x04K\x03", b"K\x03N", b"NK\x03", b"J\xff\xff\xff\xffK\x03"):
        changed = bytearray(old_pickle(y))
        changed[shape : shape + 4] = sides
        with pytest.raises(GraphError, match=r"ind\.cora\.y[: ]"):
            read(y=bytes(changed))
    for key, value in (("indices", 4), ("indices", -1), ("indptr", 100), ("indptr", -1)):
        broken = sparse.copy()
        getattr(broken, key)[1] = value
        with pytest.raises(GraphError, match=r"ind\.cora\.x[: ]"):
            read(x=old_pickle(broken))
    for starts in ([0, 2**30, 0, 0], [0, 2**31 - 1, -(2**31), 0], [0, 0, 0], [0, 1, 1, 1], [1, 1, 1, 1]):
        empty = scipy.sparse.csr_matrix((3, 4), dtype=np.float32)
        empty.indptr = np.array(starts, np.int32)
        with pytest.raises(GraphError, match=r"ind\.cora\.x: .*sparse matrix"):
            read(x=old_pickle(empty))
    short = sparse.copy()
    short.data = short.data[:1]
    with pytest.raises(GraphError, match=r"ind\.cora\.x: .*sparse matrix"):
        read(x=old_pickle(short))
    wide = old_pickle(scipy.sparse.csr_matrix((3, 2**30), dtype=np.float32))
    for wrong_matrix in (wide, old_pickle(y), old_pickle(sparse.astype(np.float64)), old_pickle(sparse.tocsc()), b"}."):
        with pytest.raises(GraphError, match=r"ind\.cora\.x: "):
            read(x=wrong_matrix)


def test_graphs_that_are_none() -> None:
    repeated = list(range(11)) * 40
    changes: list[dict[Any, Any]] = [{3: (4,)}, {3: ["4"]}, {3: [True]}, {"3": [4]}, {3: None}]
    for wrong in ([1, 2], *({**LINKS, **change} for change in changes)):
        with pytest.raises(GraphError, match=r"ind\.cora\.graph: "):
            read(graph=old_pickle(wrong))
    with pytest.raises(GraphError, match="4,840 neighbours"):
        read(graph=old_pickle(dict.fromkeys(range(11), repeated)))
    with pytest.raises(GraphError, match=r"^here: edge_index .*0\.\.10"):
        read(graph=old_pickle({**LINKS, 3: [11]}))


def test_parts_that_do_not_fit_together() -> None:
    sparse = scipy.sparse.csr_matrix(FEATURES)
    for part, content in (("y", CLASSES[:2]), ("ally", CLASSES), ("tx", sparse[:3]), ("x", sparse[:9]), ("ty", CLASSES[:1])):
        with pytest.raises(GraphError, match=r"^here: x and y, .*found the shapes"):
            read(**{part: old_pickle(content)})
    for part, content in (("allx", sparse[:8, :3]), ("ty", CLASSES[:2, :2])):
        with pytest.raises(GraphError, match=r"^here: 11 nodes"):
            read(**{part: old_pickle(content)})
    for index in (b"10\n10", b"9\n8", b"11\n8", b"10\n7", b"10\n-8"):
        with pytest.raises(GraphError, match=r"test\.index .*from 8 to the last, 10"):
            read(**{"test.index": index})
    for index in (b"10\nx", b"10\n8.5", b"10\n" + b"9" * 30, b"\xff\n8"):
        with pytest.raises(GraphError, match=r"ind\.cora\.test\.index"):
            read(**{"test.index": index})
    with pytest.raises(GraphError, match=r"^here: features .*finite"):
        read(tx=old_pickle(scipy.sparse.csr_matrix(np.full((2, 4), np.inf, np.float32))))
    with pytest.raises(GraphError, match=r"ind\.cora\.x"):
        read_planetoid(HERE, "cora", {})


@pytest.mark.slow
@pytest.mark.parametrize("part", PICKLES)
def test_truncated_files(part: str) -> None:
    whole = small_files()[f"ind.cora.{part}"]
    for size in range(len(whole)):
        with pytest.raises(GraphError, match=rf"ind\.cora\.{part}[: ]"):
            read(**{part: whole[:size]})


@pytest.mark.slow
@pytest.mark.parametrize("part", PICKLES)
def test_changed_bytes_are_read_or_refused(part: str) -> None:
    """A changed byte may still make a graph; anything else is one line that names the place."""
    draw = random.Random(0)
    whole, refused = small_files()[f"ind.cora.{part}"], 0
    for _ in range(300):
        changed = bytearray(whole)
        for _ in range(draw.choice((1, 1, 3))):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        said = "here"
        try:
            read(**{part: bytes(changed)})
        except GraphError as error:
            refused += 1
            said = str(error)
        assert said.startswith("here") and "\n" not in said
    assert refused > 60


def test_values_are_plain() -> None:
    assert follow(old_pickle({"a": (1, "b", None), 2: [True, False, (), ("x", 300, -5, 70000)]})) == {
        "a": (1, "b", None),
        2: [True, False, (), ("x", 300, -5, 70000)],
    }
