"""Nodes that come after training: the tables grow, the saved model embeds them."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import graphkin as library
from tests.test_cli import Capture, complaint, graphkin
from tests.wording import told

KINDS = ("shop", "bank", "farm")


def write_tables(folder: Path, nodes: int, *, new: list[str] | None = None, edges: list[str] | None = None) -> None:
    """A ring of nodes with a number, a category and a text; ``new`` lines and ``edges`` come after them."""
    folder.mkdir()
    lines = [f"n{i},{100 * i + 7},{KINDS[i % 3]},word{i % 4} word{i % 5}" for i in range(nodes)]
    (folder / "nodes.csv").write_text("\n".join(["id,income,kind,about", *lines, *(new or [])]) + "\n")
    ring = [f"n{i},n{(i + step) % nodes}" for i in range(nodes) for step in (1, 5)]
    (folder / "edges.csv").write_text("\n".join(["source,target", *ring, *(edges or [])]) + "\n")


def written(path: Path) -> dict[str, np.ndarray]:
    with path.open(newline="") as file:
        return {row.pop("id"): np.array([float(value) for value in row.values()]) for row in csv.DictReader(file)}


@pytest.mark.parametrize("method", ["kin", "grace+"])
def test_new_nodes_are_embedded_without_training(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path / "mine", 40)
    new = ["eve,1e9,church,word1 unheard", "tom,2007,bank,word2"]
    write_tables(tmp_path / "larger", 40, new=new, edges=["tom,n20"])
    fit = ("fit", "mine", "--method", method, "--epochs", 2, "--set", "hidden=8", "--out", "run", "--format", "csv", "-q")
    assert graphkin(*fit) == 0
    assert graphkin("embed", "run/model.graphkin", "larger", "--out", "larger.csv") == 0
    before, after = written(tmp_path / "run/embeddings.csv"), written(tmp_path / "larger.csv")
    assert list(after) == [*before, "eve", "tom"]
    moved = {name for name, row in before.items() if not np.allclose(row, after[name], rtol=1e-4, atol=1e-5)}
    assert "n20" in moved
    if method == "grace+":  # two layers see two steps: n20 and its neighbours, and theirs
        assert moved <= {f"n{20 + near}" for one in (-5, -1, 0, 1, 5) for near in (one, one - 5, one - 1, one + 1, one + 5)}
    assert all(np.isfinite(after[name]).all() and np.abs(after[name]).sum() > 0 for name in ("eve", "tom"))
    by_python = library.load("run/model.graphkin").embed("larger").numpy()
    assert np.allclose(by_python, np.stack(list(after.values())), atol=1e-5)
    capsys.readouterr()
    nodes = tmp_path / "larger/nodes.csv"
    nodes.write_text(nodes.read_text().replace("income", "wage", 1))
    line = complaint(capsys, "embed", "run/model.graphkin", "larger", "--out", "other.csv")
    assert told(line, "income") and not (tmp_path / "other.csv").exists()


def test_what_a_new_node_is_like_does_not_change_the_others(tmp_path: Path) -> None:
    """A node without edges moves nobody, however large its numbers are: the model scales by what training had."""
    write_tables(tmp_path / "mine", 40)
    write_tables(tmp_path / "larger", 40, new=["eve,1e9,church,unheard"], edges=[])
    model = library.fit(tmp_path / "mine", "grace", epochs=2, hidden=8)
    one, other = model.embed(tmp_path / "mine"), model.embed(tmp_path / "larger")
    assert other.shape[0] == 41
    assert np.allclose(one.numpy(), other[:40].numpy(), atol=1e-5)
