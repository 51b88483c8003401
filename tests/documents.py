"""What the tests of documents share: their code blocks, and a folder in which these run quickly."""

from __future__ import annotations

import functools
import hashlib
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

import graphkin
from graphkin.commands import cli
from graphkin.graphs import datasets
from graphkin.graphs.catalogue import DATASETS
from graphkin.graphs.graph import Graph

ROOT = Path(__file__).parent.parent
PARTS = ("data", "indices", "indptr", "shape")
FEWER = {
    "fit": ["--epochs", "2", "--splits", "1"],
    "tune": ["--trials", "2", "--splits", "1", "--set", "epochs=2"],
    "evaluate": ["--splits", "1"],
    "reproduce": ["--epochs", "2", "--seeds", "1"],
    "report": ["--layout", "pca"],
    "map": ["--layout", "pca"],
    "report results.sqlite": ["--epochs", "2", "--seeds", "1"],
    "bench": ["--nodes", "60", "--graph", "my-graph", "--repeats", "1"],
}
"""options behind those of a document's commands: what they do is the same, and takes less time"""


def page(name: str) -> str:
    """A page of the documentation."""
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the graph that docs/data.md shows, training that lasts two epochs, and small graphs for large ones."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-graph").mkdir()
    shown = re.search(r"```\nmy-graph/edges.*?\n(.*?)```", page("data"), flags=re.DOTALL)
    assert shown is not None
    lines = [re.split(r" {3,}", line) for line in shown.group(1).splitlines()]
    for column, stem in enumerate(("edges", "nodes")):
        text = "\n".join(line[column] for line in lines if line[column].strip())
        (tmp_path / "my-graph" / f"{stem}.csv").write_text(text + "\n", encoding="utf-8")
    shutil.copy(tmp_path / "my-graph" / "edges.csv", tmp_path / "edges.csv")
    part = part_of_cora()
    for module in (graphkin, datasets):
        monkeypatch.setattr(module, "bundled_cora", lambda: part)
    monkeypatch.setattr(graphkin, "fit", functools.partial(graphkin.fit, epochs=2))
    publish_small_photo(tmp_path / "data", monkeypatch)
    return tmp_path


def part_of_cora() -> Graph:
    """Every seventh node, with the edges between them, and every seventh word."""
    whole = graphkin.bundled_cora()
    chosen = torch.arange(whole.num_nodes) % 7 == 0
    source, target = whole.edge_index
    inside = chosen[source] & chosen[target]
    place = chosen.cumsum(0) - 1
    x = whole.x if isinstance(whole.x, torch.Tensor) else whole.x.to_dense()
    masks = {name: getattr(whole, name)[chosen] for name in ("train_mask", "val_mask", "test_mask")}
    assert whole.y is not None
    return Graph.from_arrays(x[chosen][:, ::7], place[whole.edge_index[:, inside]], whole.y[chosen], name=whole.name, **masks)


def publish_small_photo(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph of two communities, in the archive that holds Photo."""
    draw = np.random.default_rng(0)
    labels = np.arange(200) // 100
    chance = np.where(labels[:, None] == labels, 0.06, 0.01)
    edges = np.triu(draw.random((200, 200)) < chance, 1)
    words = draw.random((200, 16)) < 0.2 + 0.3 * labels[:, None]
    matrices = {"attr": scipy.sparse.csr_matrix(words, dtype=np.float32), "adj": scipy.sparse.csr_matrix(edges | edges.T)}
    photo = DATASETS["photo"]
    (file,) = photo.files
    raw = root / photo.folder / "raw"
    raw.mkdir(parents=True)
    parts = {f"{name}_{part}": getattr(matrix, part) for name, matrix in matrices.items() for part in PARTS}
    np.savez(raw / file, labels=labels, **parts)
    counts: dict[str, Any] = {"nodes": 200, "edges": int(edges.sum()), "features": 16, "classes": 2}
    digest = hashlib.sha256((raw / file).read_bytes()).hexdigest()
    monkeypatch.setitem(DATASETS, "photo", replace(photo, files={file: digest}, **counts))
    monkeypatch.setenv("GRAPHKIN_DATA", str(root))


def run_shown(commands: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The commands of a document, each with :data:`FEWER` behind it."""
    for command in commands:
        arguments = shlex.split(command, comments=True)[1:]
        fewer = FEWER.get(" ".join(arguments[:2]), FEWER.get(arguments[0], []))
        assert cli.run([*arguments, *fewer]) == 0, (command, capsys.readouterr().err)


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)
