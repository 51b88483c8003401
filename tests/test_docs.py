"""What the documents show is run."""

from __future__ import annotations

import csv
import doctest
import functools
import hashlib
import importlib
import json
import pkgutil
import re
import shlex
import shutil
import statistics
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

import graphkin
from benchmarks import criteria, nearest
from graphkin.commands import cli
from graphkin.experiments import experiment_named, parse
from graphkin.experiments.store import Store
from graphkin.experiments.summary import Cell, Summary, summarise
from graphkin.graphs import datasets
from graphkin.graphs.catalogue import DATASETS
from graphkin.graphs.graph import Graph
from graphkin.methods import method_named
from scripts import performance_table, results_pages, scale_tables

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
DATA = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
REPRODUCE = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
USES = (ROOT / "docs" / "uses.md").read_text(encoding="utf-8")
TUNE = (ROOT / "docs" / "tune.md").read_text(encoding="utf-8")
PARTS = ("data", "indices", "indptr", "shape")
MODULES = sorted(m.name for m in pkgutil.walk_packages(graphkin.__path__, "graphkin.") if not m.name.endswith("__main__"))


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


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the graph that docs/data.md shows, training that lasts two epochs, and small graphs for large ones."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-graph").mkdir()
    shown = re.search(r"```\nmy-graph/edges.*?\n(.*?)```", DATA, flags=re.DOTALL)
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


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.filterwarnings("ignore:lbfgs failed to converge")  # on so small a graph, after two epochs
def test_readme_python(quick: Path) -> None:
    names: dict[str, object] = {}
    sources = [block.replace("epochs=50", "epochs=2") for block in blocks("python")]
    assert len(sources) >= 4
    for source in sources:
        exec(compile(source, "README.md", "exec"), names)
    assert (quick / "model.graphkin").exists()
    assert isinstance(names["z"], torch.Tensor) and names["z"].shape[0] == 3


@pytest.mark.slow
def test_readme_commands(quick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("graphkin ")]
    assert len(commands) >= 6
    run_shown(commands, capsys)
    assert (quick / "runs/gca/run.json").exists()


def test_data_page(quick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_shown(blocks("sh", DATA), capsys)
    assert (quick / "result/embeddings.csv").read_text(encoding="utf-8").count("\n") == 4
    (source,) = blocks("python", DATA)
    names: dict[str, Any] = {"graphkin": graphkin}
    exec(compile(source, "data.md", "exec"), names)
    assert names["graph"].ids.tolist() == ["ann", "bob", "007"]
    assert names["z"].shape[0] == 3


def test_uses_page(quick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    enlarge(quick / "my-graph", quick / "larger-graph")
    commands = [line for block in blocks("sh", USES) for line in block.splitlines()]
    run_shown(commands, capsys)
    assert {"clusters.csv", "map.csv", "map.png"} <= {path.name for path in (quick / "runs/cora").iterdir()}
    assert (quick / "runs/cora-links/held-out-edges.csv").exists()
    names: dict[str, Any] = {"graphkin": graphkin}
    first, prediction, new = blocks("python", USES)
    exec(compile(first, "uses.md", "exec"), names)
    assert names["near"].indices.shape == (2, 5) and names["points"].shape == (387, 2)
    assert names["missing"].pairs.shape == (20, 2) and names["found"].numbers.min() == 1
    exec(compile(prediction, "uses.md", "exec"), names)
    assert names["seen"].num_edges < names["graph"].num_edges and names["scores"].values["auc"][0] > 50
    exec(compile(new, "uses.md", "exec"), names)
    assert names["larger"].ids.tolist() == ["ann", "bob", "007", "eve"] and names["near"].indices.shape == (1, 2)
    with (quick / "larger.csv").open(encoding="utf-8", newline="") as file:
        written = {row.pop("id"): [float(value) for value in row.values()] for row in csv.DictReader(file)}
    assert list(written) == ["ann", "bob", "007", "eve"]
    assert list(written.values()) == [pytest.approx(row, abs=1e-5) for row in names["z"].tolist()]


def enlarge(before: Path, after: Path) -> None:
    """The same tables with one more node."""
    shutil.copytree(before, after)
    for name, line in (("edges", "eve,ann,1.0"), ("nodes", "eve,1.1,64,")):
        with (after / f"{name}.csv").open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def test_the_uses_page_tells_what_was_measured() -> None:
    times, memory = json.loads((ROOT / "benchmarks/results/nearest.json").read_text(encoding="utf-8"))[:2]
    assert nearest.table(times) in USES
    told = " ".join(USES.split())
    assert nearest.memory(memory) in told and f"took {memory['rows'][0]['index']['seconds']:.0f} s" in told


@pytest.mark.slow
def test_tune_page(quick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_shown([line for line in blocks("sh", TUNE)[0].splitlines() if "my-graph" not in line], capsys)
    (source,) = blocks("python", TUNE)
    names: dict[str, Any] = {"graphkin": graphkin, "graph": part_of_cora()}
    exec(compile(source.replace("trials=20", "trials=2, epochs=2"), "tune.md", "exec"), names)
    assert (quick / "search" / "trials.journal").exists()


def test_the_tune_page_tells_what_was_measured() -> None:
    run = json.loads((ROOT / "benchmarks/results/criteria.json").read_text(encoding="utf-8"))[-1]
    assert criteria.table(run) in TUNE


def test_the_data_page_tells_the_counts_and_the_measurements() -> None:
    for name, dataset in DATASETS.items():
        (row,) = [line for line in DATA.splitlines() if line.startswith("|") and f"`{name}`" in line]
        for count in (dataset.nodes, dataset.edges, dataset.features):
            assert f"{count:,}" in row, (name, count)
    read = json.loads((ROOT / "benchmarks/results/read_edges.json").read_text(encoding="utf-8"))[-1]
    assert f"{read['seconds']:.1f} s with a peak of {read['peak_gib']:.2f} GiB" in DATA
    ways = json.loads((ROOT / "benchmarks/results/probe.json").read_text(encoding="utf-8"))[-1]["ways"]
    assert f"{ways['probe_torch']['seconds']:.2f} s where" in DATA
    assert f"took {ways['grid_search']['seconds']:.1f} s" in DATA
    assert ways["probe_torch"]["speed_up"] >= 10


def test_readme_opens_with_the_two_commands() -> None:
    assert blocks("sh")[0].startswith("make demo")
    assert "\nmake test" in blocks("sh")[0]


@pytest.mark.slow
def test_the_results_are_the_committed_runs() -> None:
    assert results_pages.PAGE.read_text(encoding="utf-8") == results_pages.page()
    assert results_pages.readme(README) == README


@pytest.mark.slow
def test_the_short_table_shows_the_bar() -> None:
    first, _, *rows = results_pages.short_table().splitlines()
    assert first.endswith("| propagated features | best free |")
    shown = {row.split("|")[1].strip(): row.split("|")[-2].strip() for row in rows}
    assert shown["GRACE, cora"] == "84.24 ± 1.34" and shown["Graph-MLP, cora"] == "–"


@pytest.mark.slow
def test_kin_stands_beside_the_bar_once_it_was_run(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = experiment_named("kin")
    found = summarise(experiment, results_pages._runs(), contents={"cora": "c", "cs": "c"})
    means = {"best free": 84.0, "GRACE+": 83.0, "GCA+": 82.0, "kin": 85.0, "diffusion": 84.0}
    cells = {key: Cell({0: means[key[0]], 1: means[key[0]] + 1}, {}, 20) for key in found.cells}
    cells |= {key: Cell({}, {}, 20) for key in cells if key[:2] == ("kin", "cs")}
    monkeypatch.setattr(results_pages, "kin", lambda: [Summary(experiment, cells)])
    *_, row = results_pages.kin_table().strip().splitlines()
    assert row.startswith("| cora | 84.50 ± 0.71 | 83.50 ± 0.71 | 85.50 ± 0.71 | +1.00"), "not cs, where it was not run"


@pytest.mark.slow
def test_presets_are_what_the_searches_found() -> None:
    for name, base in (("search-grace", "grace"), ("search-gca", "gca")):
        (summary,) = results_pages.summaries((name,))
        for dataset, row in results_pages.chosen(summary).items():
            found = next(one for one in summary.experiment.rows if one.name == row).chosen(dataset)
            assert found is not None
            shipped = method_named(f"{base}+", dataset)
            parts = ("positives", "negatives", "similarity")
            assert [getattr(shipped.objective, part) for part in parts] == [getattr(found.objective, part) for part in parts]


@pytest.mark.slow
def test_reproduce_page(quick: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (commands,) = blocks("sh", REPRODUCE)
    run_shown(commands.splitlines(), capsys)
    assert (quick / "results.csv").exists()
    (mine,) = blocks("toml", REPRODUCE)
    assert [row.name for row in parse("mine", mine).rows][1:4] == [f"GRACE+, effective_positives {k}" for k in (3, 10, 30)]
    (source,) = blocks("python", REPRODUCE)
    monkeypatch.setattr("distributed.Client", lambda address: nullcontext())
    monkeypatch.setattr("joblib.parallel_config", lambda backend: nullcontext())
    monkeypatch.setattr("graphkin.experiments.reproduce.reproduce", lambda *given, **options: None)
    monkeypatch.setattr("graphkin.experiments.reproduce.open_graphs", lambda *given, **options: ({}, {}))
    exec(compile(source, "reproduce.md", "exec"), {})


@pytest.mark.slow
def test_the_performance_page_is_the_result_files() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert performance_table.page(page) == page
    scale = scale_tables.PAGE.read_text(encoding="utf-8")
    assert scale_tables.page(scale) == scale
    rows = json.loads((ROOT / "docs" / "results" / "precision-8-seeds.json").read_text(encoding="utf-8"))["rows"]
    accuracy = {(row["graph"], row["precision"]): row["accuracy"] for row in rows}
    for graph in ("cora", "citeseer"):
        pairs = zip(accuracy[graph, "bf16"], accuracy[graph, "float32"], strict=True)
        differences = [rounded - exact for rounded, exact in pairs]
        error = statistics.stdev(differences) / len(differences) ** 0.5
        shown = f"{graph.capitalize()} {statistics.mean(differences):.2f} ± {error:.2f}".replace("-", "−")
        assert shown in page, shown


@pytest.mark.slow
def test_the_cost_of_smooth_vectors_is_the_result_files() -> None:
    store = Store(ROOT / "docs" / "results" / "reproduction.json", read_only=True)
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    with_vectors = {key: task["graph"] for key, task in store.trials().items() if '"tail": 32' in json.dumps(task)}
    shown = {"pubmed": "Pubmed", "cs": "CS"}
    assert set(with_vectors.values()) == set(shown)
    for key, graph in with_vectors.items():
        found = [list(run.test.values())[-1] for run in store.outcomes(key)]
        assert len(found) == 5
        assert f"{shown[graph]} {statistics.mean(found):.2f} ± {statistics.stdev(found):.2f}" in page


@pytest.mark.slow
def test_the_cost_of_tf32_is_the_result_files() -> None:
    stores = [Store(ROOT / "docs" / "results" / name, read_only=True) for name in ("encoder-tf32.json", "reproduction.json")]
    rounded, exact = (
        {(run.trial, run.seed): run.test["10 %"] for run in store.outcomes() if "10 %" in run.test} for store in stores
    )
    differences = [rounded[run] - exact[run] for run in rounded]
    shown = f"{statistics.mean(differences):+.2f} ± {statistics.stdev(differences) / len(differences) ** 0.5:.2f}"
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert f"{len(differences)} paired seeds: {shown}" in page, shown


def test_the_readmes_speeds_are_the_performance_pages() -> None:
    section = README.split("## Speed")[1].split("##")[0]
    measured = performance_table.table().replace("**", "")
    numbers = re.findall(r"[\d.]+ (?:ms|s|GiB)\b", section)
    assert len(numbers) > 10
    assert [number for number in numbers if number not in measured] == []


def test_links_and_named_tests_exist() -> None:
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            assert target.startswith("http") or (document.parent / target).exists(), (document.name, target)
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("test_*.py"))
    for name in re.findall(r"`(test_\w+?)_?(?:…)?`", (ROOT / "docs/math.md").read_text(encoding="utf-8")):
        assert f"def {name}" in tests, name
    for name in re.findall(r"`(test_\w+\.py)`", (ROOT / "docs/reliability.md").read_text(encoding="utf-8")):
        assert (ROOT / "tests" / name).exists(), name
