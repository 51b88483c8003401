"""What the documents show is run."""

from __future__ import annotations

import csv
import doctest
import importlib
import json
import pkgutil
import re
import shutil
import statistics
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import graphkin
from benchmarks import criteria, nearest
from graphkin.experiments import experiment_named, parse
from graphkin.experiments.store import Store
from graphkin.experiments.summary import Cell, Summary, summarise
from graphkin.graphs.catalogue import DATASETS
from graphkin.methods import method_named
from graphkin.training import kept
from graphkin.training.fit import fit
from scripts import goals_table, kin_tables, performance_table, results_pages, scale_tables
from tests.documents import ROOT, blocks, page, part_of_cora, run_shown

README = (ROOT / "README.md").read_text(encoding="utf-8")
DATA = page("data")
KIN = page("kin")
REPRODUCE = page("reproduce")
SKLEARN = page("sklearn")
USES = page("uses")
TUNE = page("tune")
MODULES = sorted(m.name for m in pkgutil.walk_packages(graphkin.__path__, "graphkin.") if not m.name.endswith("__main__"))


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


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
@pytest.mark.usefixtures("quick")
def test_sklearn_page(monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[dict[str, Any]] = []

    def counted(*given: Any, **settings: Any) -> Any:
        trained.append(settings)
        return fit(*given, **settings)

    monkeypatch.setattr(kept, "fit", counted)
    names: dict[str, Any] = {}
    search, frame = blocks("python", SKLEARN)
    exec(compile(search.replace("epochs=100", "epochs=2"), "sklearn.md", "exec"), names)
    assert len(trained) == 3 and "trains three times, not 46" in SKLEARN
    assert len(names["search"].cv_results_["params"]) * 5 + 1 == 46
    assert names["search"].best_params_["embedder__beta"] in (0.3, 0.6, 0.9)
    exec(compile(frame.replace("epochs=100", "epochs=2"), "sklearn.md", "exec"), names)
    assert names["z"].shape[0] == 5 and names["z"].columns[0] == "e0" and names["everyone"].shape[0] == 387


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
    told = " ".join(DATA.split())
    read = json.loads((ROOT / "benchmarks/results/read_edges.json").read_text(encoding="utf-8"))[-1]
    assert f"{read['seconds']:.1f} s with a peak of {read['peak_gib']:.2f} GiB" in told
    ways = json.loads((ROOT / "benchmarks/results/probe.json").read_text(encoding="utf-8"))[-1]["ways"]
    assert f"{ways['probe_torch']['seconds']:.2f} s where" in told
    assert f"took {ways['grid_search']['seconds']:.1f} s" in told
    assert ways["probe_torch"]["speed_up"] >= 10


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
    means = {"best free": 84.0, "GRACE+": 83.0, "GCA+": 82.0, "kin": 85.0, "diffusion": 84.0, "kin (tuned)": 86.0}
    cells = {key: Cell({0: means[key[0]], 1: means[key[0]] + 1}, {}, 20) for key in found.cells}
    cells |= {key: Cell({}, {}, 20) for key in cells if key[:2] == ("kin", "cs")}
    monkeypatch.setattr(results_pages, "_beside_the_bar", lambda: [Summary(experiment, cells)])
    *_, cora, cs = results_pages.kin_table().strip().splitlines()
    few = "(2 of 20 seeds)"
    assert cora.startswith(f"| cora | 84.50 ± 0.71 {few} | 83.50 ± 0.71 {few} | 85.50 ± 0.71 {few} | +1.00")
    assert cora.endswith(f"| 86.50 ± 0.71 {few} | 84.90 (HomoGCL) |")
    assert cs.endswith(f"| – | – | 86.50 ± 0.71 {few} | 94.98 (SIGNA) |"), "kin was not run there"


@pytest.mark.slow
def test_the_kin_page_says_where_kin_was_run() -> None:
    assert results_pages.kin_page(KIN) == KIN


def test_the_tables_of_the_kin_page_are_those_of_its_studies() -> None:
    assert kin_tables.page(KIN) == KIN


def test_the_kin_page_tells_what_the_first_version_reached() -> None:
    study = json.loads((ROOT / "benchmarks/results/kin-study.json").read_text(encoding="utf-8"))
    table = KIN.split("<!-- first version -->")[1].split("<!-- end of first version -->")[0]
    shown = sorted(line.split(" | ")[1:] for line in table.strip().splitlines()[2:])
    found = study["first shipped version, test accuracy by seed"].values()
    assert shown == sorted(
        [f"{statistics.mean(seeds):.2f} ± {statistics.stdev(seeds):.2f}", f"{len(seeds)} |"] for seeds in found
    )


def test_a_graph_whose_search_is_not_finished_is_not_listed() -> None:
    (unfinished,) = results_pages.summaries(("search-graph-mlp",))
    assert "pubmed" in unfinished.datasets
    assert "pubmed" not in results_pages.chosen(unfinished)
    assert "nan" not in results_pages.search_table(unfinished)


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
    (mine,) = blocks("toml", REPRODUCE)
    (quick / "mine.toml").write_text(mine, encoding="utf-8")
    for commands in blocks("sh", REPRODUCE):
        run_shown(commands.splitlines(), capsys)
    assert (quick / "results.csv").exists() and (quick / "mine.html").exists()
    assert [row.name for row in parse("mine", mine).rows][1:4] == [f"GRACE+, effective_positives {k}" for k in (3, 10, 30)]
    (source,) = blocks("python", REPRODUCE)
    monkeypatch.setattr("distributed.Client", lambda address: nullcontext())
    monkeypatch.setattr("joblib.parallel_config", lambda backend: nullcontext())
    monkeypatch.setattr("graphkin.experiments.reproduce.reproduce", lambda *given, **options: None)
    monkeypatch.setattr("graphkin.experiments.reproduce.open_graphs", lambda *given, **options: ({}, {}))
    exec(compile(source, "reproduce.md", "exec"), {})


@pytest.mark.slow
def test_the_performance_page_is_the_result_files() -> None:
    performance = page("performance")
    assert performance_table.page(performance) == performance
    assert goals_table.page(performance) == performance
    scale = scale_tables.PAGE.read_text(encoding="utf-8")
    assert scale_tables.page(scale) == scale
    for row in scale_tables.latest_estimates():
        for unit in ("seconds", "bytes"):
            assert 0.7 < row[f"estimated {unit}"] / row[unit] < 1.3, row["graph"]
    for file, graphs in (("precision-8-seeds", ("cora", "citeseer")), ("kin-precision", ("cora", "citeseer", "minesweeper"))):
        rows = json.loads((ROOT / "docs" / "results" / f"{file}.json").read_text(encoding="utf-8"))["rows"]
        accuracy = {(row["graph"], row["precision"]): row["accuracy"] for row in rows}
        for graph in graphs:
            pairs = zip(accuracy[graph, "bf16"], accuracy[graph, "float32"], strict=True)
            differences = [rounded - exact for rounded, exact in pairs]
            error = statistics.stdev(differences) / len(differences) ** 0.5
            shown = f"{graph.capitalize()} {statistics.mean(differences):.2f} ± {error:.2f}".replace("-", "−")
            assert shown in performance.replace("\n", " "), shown


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
@pytest.mark.parametrize(
    ("runs", "sentence"),
    [
        ("encoder-tf32", "{count} paired seeds: {difference}"),
        (
            "kin-cora-h200",
            "The same {count} seeds on Cora on an H200, which multiplies in TF32, minus one CPU core: {difference}",
        ),
    ],
)
def test_the_cost_of_tf32_is_the_result_files(runs: str, sentence: str) -> None:
    stores = [Store(ROOT / "docs" / "results" / f"{name}.json", read_only=True) for name in (runs, "reproduction")]
    rounded, exact = (
        {(run.trial, run.seed): run.test["10 %"] for run in store.outcomes() if "10 %" in run.test} for store in stores
    )
    differences = [rounded[run] - exact[run] for run in rounded]
    shown = f"{statistics.mean(differences):+.2f} ± {statistics.stdev(differences) / len(differences) ** 0.5:.2f}"
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8").replace("\n", " ")
    assert sentence.format(count=len(differences), difference=shown) in page, shown


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
