"""The commands similar, cluster, map and links, and how they find the graph of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

import graphkin as library
from graphkin import Graph
from graphkin.commands import links as links_command
from graphkin.report import picture as picture_module
from tests.test_cli import Capture, complaint, folder, graphkin, save
from tests.wording import told

__all__ = ["folder"]  # the fixture
QUICK = ("--epochs", 1, "-q", "-s", "hidden=8", "--splits", 1, "--no-baselines")
SOURCE = {"graph": "x", "file": True, "folder": "/", "paths": {}, "options": {}}
NAMES = [f"n{node:02d}" for node in range(40)]


@pytest.fixture
def run(folder: Path, capsys: Capture) -> Path:
    """A run on the small graph, which has no ids."""
    assert graphkin("fit", "small.npz", "--out", "run", *QUICK) == 0
    capsys.readouterr()
    return folder / "run"


@pytest.fixture
def named(folder: Path, small: Graph, capsys: Capture) -> Path:
    """A run on the same graph as tables with ids, in a folder of its own; the column of the labels is called kind."""
    x = small.x.to_dense().numpy()
    own = folder / "own"
    own.mkdir()
    heads = ",".join(f"f{column}" for column in range(x.shape[1]))
    assert small.y is not None
    lines = [f"{name},{','.join(map(str, row))},k{label}" for name, row, label in zip(NAMES, x, small.y.tolist(), strict=True)]
    (own / "nodes.csv").write_text(f"id,{heads},kind\n" + "\n".join(lines) + "\n")
    edges = [f"{NAMES[a]},{NAMES[b]}" for a, b in small.edge_index.T.tolist() if a < b]
    (own / "edges.csv").write_text("source,target\n" + "\n".join(edges) + "\n")
    given = ("own/edges.csv", "--nodes", "own/nodes.csv", "--label", "kind")
    assert graphkin("fit", *given, "--out", "named", *QUICK) == 0
    capsys.readouterr()
    return folder / "named"


def answer(capsys: Capture, *arguments: object) -> dict[str, Any]:
    assert graphkin(*arguments, "--json") == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("kind", ["npy", "csv", "parquet"])
def test_similar_names_nodes_as_the_user_does(named: Path, kind: str, capsys: Capture) -> None:
    given = ("own/edges.csv", "--nodes", "own/nodes.csv", "--label", "kind", "--format", kind, "--overwrite")
    assert graphkin("fit", *given, "--out", "named", *QUICK) == 0
    capsys.readouterr()
    (one, two) = answer(capsys, "similar", named, "n07", "n31", "--count", 3, "--out", "near.csv")["nodes"]
    graph = library.open_graph("own/edges.csv", nodes="own/nodes.csv", label="kind")
    rows = library.load(named / "model.graphkin").embed(graph)
    found = library.similar(rows, [7, 31], 3)
    assert [one["node"], two["node"]] == ["n07", "n31"]
    assert [near["node"] for near in one["similar"]] == [NAMES[place] for place in found.indices[0]]
    assert [near["cosine"] for near in two["similar"]] == pytest.approx(found.cosines[1].tolist(), abs=1e-5)
    lines = Path("near.csv").read_text().splitlines()
    assert lines[0] == '"node","similar","cosine"' and len(lines) == 7
    assert graphkin("similar", named, "n07", "--count", 1) == 0
    assert told(capsys.readouterr().out, "kin on edges", "n07", one["similar"][0]["node"])


def test_similar_by_index(run: Path, capsys: Capture) -> None:
    (one,) = answer(capsys, "similar", run, 7, "--count", 100)["nodes"]
    assert one["node"] == 7 and sorted(near["node"] for near in one["similar"]) == [n for n in range(40) if n != 7]


def test_cluster_writes_a_file_and_says_why(named: Path, capsys: Capture) -> None:
    assert graphkin("cluster", named) == 0
    assert told(capsys.readouterr().out, "most central", "clusters: the highest mean silhouette", "clusters.csv")
    lines = (named / "clusters.csv").read_text().splitlines()
    assert lines[0] == '"id","cluster"' and [line.split('"')[1] for line in lines[1:]] == NAMES
    found = answer(capsys, "cluster", named, "--count", 3, "--out", "clusters.parquet")
    assert (found["count"], found["why"], found["silhouettes"]) == (3, "3 clusters, as asked for.", {})
    table = pyarrow.parquet.read_table("clusters.parquet")
    assert table.column_names == ["id", "cluster"]
    sizes = np.bincount(table["cluster"].to_numpy())[1:].tolist()
    assert sizes == [one["nodes"] for one in found["clusters"]] == sorted(sizes, reverse=True)


def test_map_is_a_file_and_a_picture(named: Path, capsys: Capture) -> None:
    found = answer(capsys, "map", named, "--layout", "pca")
    assert found["colour"] == "label" and found["picture"] == str(named / "map.png")
    assert (named / "map.png").read_bytes().startswith(b"\x89PNG")
    lines = (named / "map.csv").read_text().splitlines()
    assert lines[0] == '"id","x","y","label"' and len(lines) == 41 and lines[1].startswith('"n00",') and '"k0"' in lines[1]
    found = answer(capsys, "map", named, "--layout", "pca", "--colour", "cluster", "--no-picture", "--out", "map.parquet")
    assert found["picture"] is None and not Path("map.png").exists()
    assert pyarrow.parquet.read_table("map.parquet").column_names == ["id", "x", "y", "cluster"]


def test_a_map_of_many_nodes_draws_the_sample(named: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphkin.commands.map.SAMPLE", 30)
    monkeypatch.setattr("graphkin.uses.layout.SAMPLE", 30)
    drawn = []
    monkeypatch.setattr("graphkin.commands.map.draw", lambda *given: drawn.append(given))
    assert answer(capsys, "map", named)["nodes"] == 40
    ((_, points, groups, _, title),) = drawn
    assert len(points) == len(groups) == 30 and "30 of 40 nodes by tsne" in title
    assert len((named / "map.csv").read_text().splitlines()) == 41


def test_map_without_labels_has_clusters_and_says_so(folder: Path, small: Graph, capsys: Capture) -> None:
    save(folder / "bare.npz", small, y=None)
    assert graphkin("fit", "bare.npz", "--out", "run", *QUICK) == 0
    assert graphkin("map", "run", "--layout", "pca") == 0
    assert "colours are clusters, because the graph has no labels" in capsys.readouterr().out
    line = complaint(capsys, "map", "run", "--colour", "label", "--out", "other.csv")
    assert "label" in line and "bare" in line
    (folder / "bare.npz").unlink()
    assert graphkin("map", "run", "--layout", "pca", "--overwrite") == 0
    assert told(capsys.readouterr().out, "colours are clusters", "bare.npz", "wrote")


def test_links_are_no_edges(named: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links_command, "EVERY", 0)
    found = answer(capsys, "links", named, "--count", 50, "--out", "links.csv")["links"]
    edges = {frozenset(line.split(",")) for line in Path("own/edges.csv").read_text().splitlines()[1:]}
    assert len(found) == 50 and not edges & {frozenset((one["source"], one["target"])) for one in found}
    cosines = [one["cosine"] for one in found]
    assert cosines == sorted(cosines, reverse=True)
    assert Path("links.csv").read_text().startswith('"source","target","cosine"\n"n')
    assert graphkin("links", named, "--count", 10_000) == 0
    assert f"only {780 - len(edges)} pairs" in capsys.readouterr().out


def test_a_run_knows_its_graph_from_any_folder(named: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    source = json.loads((named / "run.json").read_text())["graph"]["source"]
    assert source["graph"] == "own/edges.csv" and source["options"]["label"] == "kind"
    elsewhere = named.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    for arguments in (["evaluate", named, "--no-baselines"], ["evaluate", named / "embeddings.npy", "--no-baselines"]):
        assert graphkin(*arguments, "--splits", 1, "--train", 0.3) == 0, capsys.readouterr().err
    assert graphkin("report", named, "--layout", "pca") == 0
    assert graphkin("links", named) == 0
    monkeypatch.chdir(named.parent)
    moved = named.parent / "moved"
    elsewhere.rename(moved)
    (named.parent / "own").rename(moved / "own")
    monkeypatch.chdir(moved)
    assert graphkin("links", named) == 0, "the same paths, from here"
    monkeypatch.chdir(elsewhere.parent)
    capsys.readouterr()
    assert told(complaint(capsys, "links", named), "own/edges.csv", "name the graph")


def test_a_changed_graph_is_noticed(named: Path, capsys: Capture) -> None:
    path = Path("own/edges.csv")
    before = path.read_text()
    path.write_text(before + "n00,n39\n")
    for command in ("links", "evaluate", "report"):
        line = complaint(capsys, command, named)
        assert told(line, "own/edges.csv", "changed", "edges for")
    assert graphkin("links", named, "--graph", "own/edges.csv", "--nodes", "own/nodes.csv", "--label", "kind") == 0
    path.write_text(before)
    nodes = Path("own/nodes.csv")
    nodes.write_text(nodes.read_text().replace("k0", "k7", 1))
    capsys.readouterr()
    assert told(complaint(capsys, "evaluate", named), "changed", "other edges, features, labels or splits")
    assert graphkin("evaluate", named, "--label", "f0", "--ignore", "kind", "--protocol", "search") in (0, 2)


def test_runs_of_earlier_versions(run: Path, capsys: Capture) -> None:
    record = json.loads((run / "run.json").read_text())
    del record["graph"]["source"], record["graph"]["content"]
    (run / "run.json").write_text(json.dumps(record))
    assert graphkin("similar", run, 3) == 0
    assert graphkin("cluster", run) == 0
    assert graphkin("map", run, "--layout", "pca") == 0
    assert told(capsys.readouterr().out, "colours are clusters", "'small'", "earlier version")
    assert told(complaint(capsys, "links", run), "name the graph", "'small'", "earlier version")
    assert graphkin("links", run, "--graph", "small.npz") == 0


@pytest.mark.parametrize(
    ("damage", "fact"),
    [
        ({"source": 7}, "source"),
        ({"source": {"graph": "x", "options": {}}}, "file"),
        ({"source": SOURCE | {"paths": {"nodes": 7}}}, "nodes"),
        ({"source": SOURCE | {"paths": {"label": "a", "pickle": "b"}}}, "pickle"),
        ({"source": SOURCE | {"options": {"label": 7}}}, "label"),
        ({"source": SOURCE | {"options": {"ignore": "a"}}}, "ignore"),
        ({"source": SOURCE | {"options": {"pickle": "a"}}}, "pickle"),
        ({"nodes": "many"}, "nodes"),
    ],
)
def test_a_damaged_record_is_named(run: Path, damage: dict[str, Any], fact: str, capsys: Capture) -> None:
    record = json.loads((run / "run.json").read_text())
    record["graph"] |= damage
    (run / "run.json").write_text(json.dumps(record))
    assert told(complaint(capsys, "links", run), "run.json", fact)


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["similar", "run", "40"], ["'40'", "0..39"]),
        (["similar", "run", "ann"], ["'ann'", "0..39"]),
        (["similar", "run", "--", "-1"], ["'-1'", "0..39"]),
        (["similar", "run", "²"], ["'²'", "0..39"]),
        (["similar", "run"], ["NODE"]),
        (["similar", "run", "1", "--count", "0"], ["count", ">= 1", "found 0"]),
        (["similar", "run", "1", "--out", "near.txt"], [".csv", ".parquet", "near.txt"]),
        (["similar", "small.npz", "1"], ["small.npz", "run.json"]),
        (["similar", "nothing", "1"], ["nothing", "run.json"]),
        (["cluster", ".", "--count", "3"], ["run.json"]),
        (["cluster", "run", "--count", "0"], ["count", ">= 1", "found 0"]),
        (["cluster", "run", "--count", "41"], ["count", "at most 40", "found 41"]),
        (["cluster", "run", "--seed", "-1"], ["seed", ">= 0"]),
        (["map", "run", "--layout", "umap"], ["layout", "'umap'", "tsne"]),
        (["map", "run", "--colour", "red"], ["colour", "'red'", "cluster"]),
        (["map", "run", "--picture", "map.gif"], ["map.gif", ".png"]),
        (["map", "run", "--out", "map.png"], ["--picture map.png", ".csv"]),
        (["map", "run", "--out", "run"], ["folder", "run"]),
        (["links", "run", "--count", "0"], ["count", ">= 1", "found 0"]),
        (["links", "run", "--device", "gpu"], ["device", "'gpu'"]),
        (["links", "run", "--graph", "nothing.npz"], ["nothing.npz"]),
        (["links", "."], ["run.json"]),
    ],
)
def test_mistakes(run: Path, capsys: Capture, arguments: list[str], facts: list[str]) -> None:
    line = complaint(capsys, *arguments)
    assert all(fact in line for fact in facts), line


def test_mistakes_with_ids_and_files(named: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(complaint(capsys, "similar", named, "n7"), "'n7'", "Did you mean", "'n00'")
    Path("near.csv").write_text("mine")
    assert told(complaint(capsys, "similar", named, "n07", "--out", "near.csv"), "near.csv", "--overwrite")
    assert Path("near.csv").read_text() == "mine"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert told(complaint(capsys, "map", named), "matplotlib", "graphkin[plots]", "--no-picture")
    monkeypatch.undo()
    monkeypatch.chdir(named.parent)
    (named / "embeddings.ids.csv").write_text("id\nn00\nn01\n")
    assert told(complaint(capsys, "similar", named, "n00"), "embeddings.npy", "2 nodes", "(40, ")
    np.save(named / "embeddings.npy", np.full((40, 3), np.nan))
    (named / "embeddings.ids.csv").unlink()
    assert told(complaint(capsys, "cluster", named), "embeddings", "finite")
    (named / "embeddings.npy").unlink()
    assert told(complaint(capsys, "cluster", named), "named", "embeddings.npy")


def test_pictures_take_any_names(tmp_path: Path) -> None:
    names = ["$x^", "_hidden", "a" * 300, "tab\there", "no label", *(f"class {number}" for number in range(40))]
    groups = np.arange(200) % len(names)
    for suffix in (".png", ".svg", ".pdf"):
        picture_module.draw(tmp_path / f"map{suffix}", np.random.default_rng(0).normal(size=(200, 2)), groups, names, "$_{")
        assert (tmp_path / f"map{suffix}").stat().st_size > 1000
