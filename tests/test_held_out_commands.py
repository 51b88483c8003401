"""``fit --hold-out-edges`` and ``evaluate --protocol links``: the run folder knows what training did not see."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from graphkin import Graph, evaluate, hold_out_edges, load, open_graph
from tests.test_cli import Capture, complaint, folder, graphkin, save
from tests.test_uses_commands import NAMES, QUICK, answer, named, run
from tests.wording import told

__all__ = ["folder", "named", "run"]  # fixtures
TABLES = ("own/edges.csv", "--nodes", "own/nodes.csv", "--label", "kind")


@pytest.fixture
def held(named: Path, capsys: Capture) -> Path:
    """A run on a graph with ids that held out a fifth of the edges."""
    assert graphkin("fit", *TABLES, "--out", "held", *QUICK, "--hold-out-edges", 0.2, "--seed", 1) == 0
    assert told(capsys.readouterr().out, "edges held out", "protocol links", "auc", "held-out-edges.csv")
    return named.parent / "held"


def pairs_in(path: Path) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """By part and edge."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault((row["part"], row["edge"]), []).append((row["source"], row["target"]))
    return found


def test_the_folder_has_the_pairs_and_the_score(held: Path, capsys: Capture) -> None:
    graph = open_graph("own/edges.csv", nodes="own/nodes.csv", label="kind")
    left = hold_out_edges(graph, 0.2, seed=1)
    assert left.held_out is not None
    pairs = pairs_in(held / "held-out-edges.csv")
    order = (("test", "1"), ("test", "0"), ("validation", "1"), ("validation", "0"))
    for key, part in zip(order, left.held_out.parts(), strict=True):
        assert pairs[key] == [(NAMES[a], NAMES[b]) for a, b in part.T.tolist()]
    record = json.loads((held / "run.json").read_text())
    expected = evaluate(load(held / "model.graphkin").embed(left), left, protocol="links")
    assert record["links"]["auc"] == pytest.approx(expected.values["auc"])
    assert record["graph"]["held_out"] == left.held_out.edges.size(1)
    assert record["graph"]["edges"] == left.num_edges < graph.num_edges
    found = answer(capsys, "evaluate", held, "--protocol", "links", "--splits", 1)
    assert found["auc"] == pytest.approx(expected.values["auc"]) and found["ap"] == pytest.approx(expected.values["ap"])
    best = found["baselines"]["best free"]
    free = {name: row for name, row in found["baselines"].items() if "chosen" not in row and name != "untrained encoder"}
    assert best["val_auc"] == max(row["val_auc"] for row in free.values()) and best["auc"] == free[best["chosen"][0]]["auc"]
    given = answer(capsys, "evaluate", held, *TABLES, "--protocol", "links", "--no-baselines")
    assert given["auc"] == found["auc"], "also where the graph is named"


def test_other_commands_take_the_run(held: Path, capsys: Capture) -> None:
    for command in (["evaluate", held, "--splits", 1, "--train", 0.3], ["map", held, "--layout", "pca"], ["report", held]):
        assert graphkin(*command) == 0, capsys.readouterr().err
    capsys.readouterr()
    found = answer(capsys, "links", held, "--count", 1000)["links"]
    known = {tuple(line.split(",")) for line in Path("own/edges.csv").read_text().splitlines()[1:]}
    assert not {(link["source"], link["target"]) for link in found} & known, "a held-out edge is not missing"


def test_a_graph_without_labels_or_ids(folder: Path, small: Graph, capsys: Capture) -> None:
    save(folder / "bare.npz", small, y=None)
    assert graphkin("fit", "bare.npz", "--out", "bare", *QUICK, "--hold-out-edges", 0.1) == 0
    out = capsys.readouterr().out
    assert told(out, "protocol links") and "not scored" not in out
    assert answer(capsys, "evaluate", "bare", "--protocol", "links", "--no-baselines")["auc"][0] > 50
    assert graphkin("fit", "bare.npz", "--out", "bare", *QUICK, "--overwrite") == 0
    assert not (folder / "bare/held-out-edges.csv").exists(), "nothing stays of the earlier run"
    assert told(capsys.readouterr().out, "not scored", "labels")


def test_a_run_that_saw_every_edge_is_refused(run: Path, capsys: Capture) -> None:
    assert told(complaint(capsys, "evaluate", run, "--protocol", "links"), "links", "held out", "--hold-out-edges 0.1")


@pytest.mark.parametrize(
    ("share", "facts"),
    [(0, ["> 0", "found 0"]), (1, ["<= 0.9", "found 1"]), ("nan", ["found nan"]), (0.001, ["0.001", "edges"])],
)
def test_refused_shares(folder: Path, capsys: Capture, share: object, facts: list[str]) -> None:
    line = complaint(capsys, "fit", "small.npz", "--out", "run", "--hold-out-edges", share)
    assert told(line, *facts) and not (folder / "run").exists()


def test_a_damaged_file_is_named(held: Path, capsys: Capture) -> None:
    path = held / "held-out-edges.csv"
    before = path.read_text()
    damages = {
        before.replace('"n', '"m', 1): ["'m"],
        before.replace('"test"', '"exam"', 1): ["part", "test or validation"],
        before.replace("edge", "link", 1): ["edge", "link"],
        before.replace(',1,"test"', ',0,"test"'): ["different graph"],
        "".join(before.splitlines(keepends=True)[:2]): ["own/edges.csv", "changed"],
        "\0": [],
    }
    for text, facts in damages.items():
        path.write_text(text)
        line = complaint(capsys, "evaluate", held, "--protocol", "links")
        assert told(line, *facts) and ("held-out-edges.csv" in line or "changed" in line), line
    path.unlink()
    assert told(complaint(capsys, "evaluate", held), "held-out-edges.csv")
