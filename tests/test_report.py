from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphkin import Graph, fit, method_named
from graphkin.commands.runs import run_record, write_run
from graphkin.errors import InputError, OutputError, SettingError
from graphkin.experiments import SHIPPED, Experiment, ExperimentRow, experiment_named
from graphkin.experiments.summary import Cell, Summary
from graphkin.report import page as page_module
from graphkin.report import weights as weights_module
from graphkin.report.figures import Figure
from graphkin.report.fit_plots import fit_loss_figure, map_figure, weight_figure
from graphkin.report.map import NEIGHBOURS, node_map
from graphkin.report.markdown import tables_as_markdown
from graphkin.report.page import fit_page, reproduction_page
from graphkin.report.plots import loss_figure, ratio_figure
from graphkin.report.reading import (
    agreement,
    cell_of,
    failed_runs,
    free_rows,
    mark,
    others_below,
    p_text,
    sentences_of,
    signed,
    spread,
    verdict,
)
from graphkin.report.result_tables import result_tables
from graphkin.report.weights import WeightDiagnosis, applies, diagnose, sentences
from tests.cases import weights_for
from tests.wording import refused, told

BOTH = (ExperimentRow("Base", "grace"), ExperimentRow("Base+", "grace+"))
WHERE = {"machine": {"system": "TestOS", "gpu": "A GPU", "threads": 2}, "versions": {"python": "3.12"}, "commit": "abc1234"}


whole_plotly = page_module.plotly_js


@pytest.fixture(autouse=True)
def short_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page without the 4.6 MB that are the same on every one."""
    monkeypatch.setattr(page_module, "plotly_js", lambda: "Plotly = {};")


def experiment(**changes: Any) -> Experiment:
    made = Experiment(
        name="toy",
        title="Base and Base+",
        source="a table",
        protocol="gca",
        seeds=4,
        datasets=("one", "two"),
        measures=("test",),
        rows=(ExperimentRow("raw features", baseline="raw features"), *BOTH),
        base="Base",
        published={"test": {"Base": {"one": (80.0, 1.0)}, "Base+": {"one": (99.0, 0.5), "two": (70.0, 1.0)}}},
    )
    return replace(made, **changes)


def cell(mean: float, seeds: int = 4, **given: Any) -> Cell:
    """Around a mean with spread, the same on every seed but for a little of its own."""
    offsets = np.array([-1.0, 1.0, -0.5, 0.5])[:seeds] + 0.01 * np.array([1, -1, -1, 1])[:seeds] * mean / 80
    test = {seed: mean + float(offset) for seed, offset in enumerate(offsets)}
    return Cell(test, given.pop("val", {seed: value + 1 for seed, value in test.items()}), 4, **given)


def summary(gains: dict[str, float], **changes: Any) -> Summary:
    """Base+ above Base by ``gains`` on each dataset."""
    made = experiment(**changes)
    cells = {}
    for dataset, gain in gains.items():
        for row in made.rows:
            for measure in made.measures:
                published = made.published_for(row, dataset, measure)
                level = 80 + (gain if row.name == "Base+" else 0)
                trained: dict[str, Any] = {"losses": (3.0, 2.0, 1.5), "epochs": 20, "seconds": 1.25} if row.method else {}
                trained |= {} if f"val_{made.scored_by.column(measure).measure}" in made.scored_by.measures else {"val": {}}
                cells[row.name, dataset, measure] = cell(level, published=published, **trained)
    return Summary(made, cells)


def run_folder(folder: Path, graph: Graph, method: str = "grace+", kind: str = "npy") -> Path:
    fitted = fit(graph, method, epochs=3, hidden=8)
    scores: dict[str, Any] = {"not_scored": "too few nodes"}
    if graph.y is not None:
        value = {"protocol": "grace", "accuracy_mean": 81.5, "accuracy_std": 0.5, "accuracy": [81.0, 82.0]}
        scores = {**value, "of": method, "baselines": {"raw features": value}}
    folder.mkdir(exist_ok=True)
    write_run(folder, fitted, graph, lambda embeddings: scores, kind)
    return folder


def figures_of(page: str) -> list[dict[str, Any]]:
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return list(json.loads(found[1]))


def words_of(page: str) -> str:
    """What a reader sees: no scripts, no styles, no tags."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def scripts_are_whole(page: str) -> bool:
    """Whether every script ends where the page ends it."""
    own = page.replace(page_module.plotly_js(), "")
    return own.count("</script>") == own.count("<script") == 4


def fetched(page: str) -> list[str]:
    """Addresses in tags outside of scripts, but for those that need no network."""
    tags = re.findall(r"<[^>]*>", re.sub(r"<(script|style)\b[^>]*>.*?</\1>", r"<\1>", page, flags=re.DOTALL))
    addresses = re.findall(r"""\b(?:src|href|action|data)\s*=\s*["']([^"']*)""", " ".join(tags))
    return [address for address in addresses if not address.startswith(("#", "data:"))]


@pytest.mark.parametrize(
    ("value", "text"), [(1.234, "+1.23"), (-0.5, "−0.50"), (0.0, "0.00"), (-0.001, "0.00"), (12.0, "+12.00")]
)
def test_signs(value: float, text: str) -> None:
    assert signed(value) == text


def test_numbers_as_text() -> None:
    assert spread(83.617, 1.134) == "83.62 ± 1.13"
    assert spread(83.617, math.nan) == "83.62"
    assert [p_text(p) for p in (0.0001, 0.0123, 0.9, math.nan)] == ["p < 0.001", "p = 0.012", "p = 0.900", "p unknown"]


ABOVE, BELOW = "significantly above", "significantly below"


def test_verdict_names_the_datasets_on_each_side() -> None:
    assert told(verdict(summary({"one": 1.0, "two": 1.0})), "Base+", ABOVE, "Base", "one (+1.00)", "two (+1.00)")
    assert told(verdict(summary({"one": 1.0, "two": -1.0})), "Base+", ABOVE, "Base", "one (+1.00)", BELOW, "two (−1.00)")
    noisy = summary({"one": 1.0, "two": 1.0})
    scattered = replace(noisy.cell("Base+", "two", "test"), test={0: 90.0, 1: 71.0, 2: 90.0, 3: 71.0})
    noisy = Summary(noisy.experiment, {**noisy.cells, ("Base+", "two", "test"): scattered})
    assert told(verdict(noisy), ABOVE, "one (+1.00)", "above", "not significantly", "two (+0.50)")
    assert told(verdict(summary({"one": 1.0})), ABOVE, "one (+1.00)", "not yet comparable", "two")
    assert told(verdict(summary({"one": 0.0, "two": 1.0})), ABOVE, "two (+1.00)", "equal", "one (0.00)")


def test_verdict_counts_the_points_of_a_figure() -> None:
    points = summary(
        {"one": 1.0, "two": 1.0}, protocol="few-labels", measures=("1", "3"), axis="labels of a class", published={}
    )
    assert told(verdict(points), "Base+", ABOVE, "Base", "4 of 4 points")
    assert BELOW not in verdict(points) and "one" not in verdict(points)
    below = replace(points.cell("Base", "two", "3"), test=cell(86).test)
    points = Summary(points.experiment, {**points.cells, ("Base", "two", "3"): below})
    three = ("one at 1 (+1.00)", "one at 3 (+1.00)", "two at 1 (+1.00)")
    assert told(verdict(points), ABOVE, "3 of 4 points", *three, BELOW, "1 of 4 points", "two at 3 (−5.00)")


def test_verdict_names_measures_that_are_no_points_of_a_figure() -> None:
    made = summary({"one": 1.0, "two": -1.0}, protocol="clustering", measures=("nmi", "ari"), published={})
    above, below = ("nmi on one (+1.00)", "ari on one (+1.00)"), ("nmi on two (−1.00)", "ari on two (−1.00)")
    assert told(verdict(made), ABOVE, "2 of 4 cells", *above, BELOW, "2 of 4 cells", *below)


def test_no_verdict_without_rows_to_compare() -> None:
    assert verdict(summary({"one": 1.0}, base=None)) == ""
    grid = (ExperimentRow("Base", "grace"), ExperimentRow("a", "grace+"), ExperimentRow("b", "grace+"))
    assert verdict(summary({"one": 1.0}, rows=grid)) == ""
    assert verdict(summary({"one": 1.0}, rows=grid[:2])).startswith("a is ")


def test_agreement_counts_cells_beside_the_paper() -> None:
    assert told(agreement(summary({"one": 1.0, "two": 1.0})), "3 cells", "1 without", "1 above", "1 below")
    assert agreement(summary({"one": 1.0}, published={})) == ""


@pytest.mark.parametrize(("protocol", "measures"), [("gca", ("test",)), ("clustering", ("nmi", "ari"))])
def test_runs_below_the_untrained_encoder_are_counted(protocol: str, measures: tuple[str, ...]) -> None:
    rows = (ExperimentRow("none", "grace", baseline="untrained encoder"), *BOTH)
    made = summary({"one": 1.0, "two": 1.0}, rows=rows, protocol=protocol, measures=measures, published={})
    floor = {("none", name, measure): cell(60) for name in ("one", "two") for measure in measures}
    made = Summary(made.experiment, {**made.cells, **floor})
    assert failed_runs(made) == ""
    fallen = {
        ("Base+", "two", measure): replace(cell(81), test={**made.cell("Base+", "two", measure).test, 3: 25.0})
        for measure in measures
    }
    assert told(failed_runs(Summary(made.experiment, {**made.cells, **fallen})), "1 of 4 runs", "Base+", "two")
    if len(measures) > 1:
        first = dict(list(fallen.items())[:1])
        assert failed_runs(Summary(made.experiment, {**made.cells, **first})) == "", "in every measure"
    assert failed_runs(summary({"one": -60.0})) == ""


def test_free_rows_above_the_method_are_named() -> None:
    rows = (ExperimentRow("free", baseline="propagated features"), *BOTH)
    assert free_rows(summary({"one": 1.0, "two": 1.0}, rows=rows)) == ""
    said = free_rows(summary({"one": 1.0, "two": -1.0}, rows=rows))
    assert told(said, "Propagated features", "above", "Base+", "two") and "one" not in said
    assert free_rows(summary({"one": -1.0})) == ""


def test_the_best_free_row_above_the_method_is_named() -> None:
    """It stands for all free rows as soon as it has results."""
    rows = (ExperimentRow("free", baseline="propagated features"), ExperimentRow("best", baseline="best free"), *BOTH)
    made = summary({"one": 1.0, "two": -1.0}, rows=rows)
    said = free_rows(made)
    assert told(said, "Training-free", "validation", "above", "Base+", "two") and "Propagated" not in said
    without = {key: Cell({}, {}, 4) if key[0] == "best" else one for key, one in made.cells.items()}
    assert free_rows(Summary(made.experiment, without)).startswith("Propagated features")


def test_scores_of_a_run_name_the_chosen_row(small: Graph, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", small)
    record = json.loads((folder / "run.json").read_text())
    best = {**record["scores"]["baselines"]["raw features"], "chosen": ["2 hops", "2 hops"]}
    record["scores"] |= {"advice": "Smoothed features score higher.", "baselines": {"best free": best, "2 hops": best}}
    (folder / "run.json").write_text(json.dumps(record))
    page = words_of(fit_page(folder, small, layout="pca"))
    assert told(page, "Smoothed features score higher.", "best free: 2 hops")


def test_other_rows_below_the_base_are_named() -> None:
    part = ExperimentRow("Part", "grace+(p)")
    rows = (ExperimentRow("raw features", baseline="raw features"), *BOTH, part)

    def with_part(level: float, **changes: Any) -> Summary:
        made = summary({"one": 1.0, "two": -1.0}, rows=rows, **changes)
        return Summary(
            made.experiment, {**made.cells, **{key: cell(level) for key in made.cells if key[:2] == ("Part", "two")}}
        )

    assert others_below(with_part(80.0)) == others_below(with_part(81.0)) == ""
    assert told(others_below(with_part(78.0)), BELOW[1:], "Base", "Part", "two (−2.00)")
    figure = with_part(78.0, measures=("2 %", "4 %"), protocol="grace", published={}, axis="training nodes")
    assert told(others_below(figure), BELOW[1:], "Base", "Part", "2 of 4 points", "two at 2 % (−2.00)", "two at 4 % (−2.00)")


def test_training_that_was_cut_short_is_no_result() -> None:
    whole = summary({"one": 1.0, "two": 1.0})
    made = replace(whole, cut_to=5)
    (said,) = sentences_of(made)
    words = words_of(reproduction_page([made], [WHERE], "graphkin report"))
    assert "5 epochs" in said and said in words
    assert verdict(whole) and verdict(whole) not in words
    assert agreement(whole) and agreement(whole) not in words


def test_a_page_of_other_measures_says_what_they_are() -> None:
    note = "Nothing is published."
    made = summary({"one": 1.0}, protocol="clustering", measures=("nmi", "ari"), published={}, note=note)
    page = reproduction_page([made], [WHERE], "graphkin report")
    words, markdown = words_of(page), tables_as_markdown([made])
    for text in (words, markdown):
        assert told(text, "clustering", "nmi: normalised mutual information", "ari: adjusted Rand index", note)
        assert "ccuracy" not in text
    captions = re.findall(r"<caption><span>(.*?)</span>", page)
    assert captions[:2] == ["Normalised mutual information in percent", "Adjusted Rand index in percent"]
    assert result_tables(made)[0].rows[2][1][0].detail == "1.2 s of training a run", "no validation"


def test_cells_of_unknown_datasets_are_missing_not_absent() -> None:
    found = cell_of(summary({"one": 1.0}), "Base+", "two", "test")
    assert (found.count, found.wanted, found.published) == (0, 4, (70.0, 1.0))


def test_every_wanted_cell_is_on_the_page() -> None:
    made = summary({"one": 1.0})
    page = reproduction_page([made], [WHERE], "graphkin report")
    words = words_of(page)
    assert len(re.findall(r"<td(?: data-\w+=\"[^\"]*\")*>\s*<div class=\"ours", page)) == 3 * 2
    assert words.count("missing 0 of 4 seeds") == 3
    assert "12 of 24 results" in words
    assert "70.00 ± 1.00" in words  # published of a cell that is missing
    for text in ("TestOS", "A GPU", "python 3.12", "abc1234", "graphkin report", verdict(made), agreement(made)):
        assert text in words


def test_numbers_on_the_page_are_the_summary_s() -> None:
    made = summary({"one": 1.0, "two": -1.0})
    page = reproduction_page([made], [], "")
    words = words_of(page)
    for (row, dataset, measure), found in made.cells.items():
        assert f"{spread(found.mean, found.std)} 4 seeds" in words
        assert f'data-ours="{found.mean!r}"' in page
        gain = made.gain(row, dataset, measure)
        if gain is not None:
            assert " ".join(f"gain {signed(gain.points)} {mark(gain)} {p_text(gain.p_value)}".split()) in words
        difference = found.against_published(4)
        if difference is not None:
            assert f"to paper {signed(difference.points)}" in words
            assert f'data-difference="{difference.points!r}"' in page


def test_incomplete_cells_say_how_many_seeds() -> None:
    made = summary({"one": 1.0, "two": 1.0})
    made = Summary(made.experiment, {**made.cells, ("Base+", "one", "test"): cell(81, seeds=1)})
    words = words_of(reproduction_page([made], [], ""))
    assert "1 of 4 seeds" in words
    assert "p unknown (significance unknown)" in words
    assert told(verdict(made), "above", "too few seeds", "one")
    assert ", n = 1 of 4" in tables_as_markdown([made])


@pytest.mark.parametrize("name", SHIPPED)
def test_pages_of_shipped_experiments_without_any_run(name: str) -> None:
    made = Summary(experiment_named(name), {})
    page = reproduction_page([made], [], "graphkin report")
    cells = len(made.experiment.rows) * len(made.experiment.datasets) * len(made.experiment.measures)
    assert words_of(page).count("missing 0 of ") == cells
    assert tables_as_markdown([made]).count("*missing*, n = 0 of ") == cells
    assert fetched(page) == []


def test_text_of_users_is_escaped() -> None:
    nasty = "</script><b>&"
    made = summary({"one": 1.0}, title=nasty, rows=(ExperimentRow(nasty, "grace"), ExperimentRow("Base", "grace")), axis=nasty)
    page = reproduction_page([made], [{"commit": nasty}], nasty)
    assert "<b>&" not in page
    assert scripts_are_whole(page)
    assert nasty in words_of(page)


def test_figures_are_valid_plotly() -> None:
    figure = pytest.importorskip("plotly.graph_objects").Figure
    made = summary(
        {"one": 1.0}, protocol="few-labels", measures=("1", "3"), axis="labels", published={"3": {"Base": {"one": (80, 1)}}}
    )
    losses = loss_figure(made)
    assert losses is not None
    diagnosis = WeightDiagnosis(10, 10, 0.2, 0.3, 0.6, 0.9, 1.1, 4.0)
    for one in (ratio_figure(made), losses, fit_loss_figure([2.0, math.nan, 1.0]), weight_figure(diagnosis)):
        for panel in one.panels:
            figure(data=panel.data, layout=panel.layout)
    assert loss_figure(Summary(made.experiment, {})) is None


def test_lines_and_bands_of_a_figure() -> None:
    made = summary({"one": 1.0}, protocol="few-labels", measures=("1", "3"), axis="labels", published={})
    found = ratio_figure(made)
    traces = [trace for trace in found.panels[0].data if trace["meta"]["entry"] == 2]
    band, line = traces
    plus = made.cell("Base+", "one", "1")
    assert line["x"] == [1.0, 3.0]
    assert line["y"][0] == pytest.approx(plus.mean, abs=1e-4)
    assert band["y"][0] == pytest.approx(plus.mean + plus.std, abs=1e-4)
    assert band["y"][-1] == pytest.approx(plus.mean - plus.std, abs=1e-4)
    assert "annotations" in found.panels[1].layout, "a panel without runs says so"


def test_panels_stand_in_full_rows() -> None:
    assert [Figure("", "", [fit_loss_figure([1.0]).panels[0]] * count).columns for count in (1, 2, 3, 4, 6)] == [1, 2, 3, 2, 3]


def test_fit_page_has_it_all(small: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "plotly_js", whole_plotly)
    named = replace(
        small, ids=np.array(["</script><b>", *(f"n{i}" for i in range(39))]), class_names=("a & b", "c"), name="<g>"
    )
    folder = run_folder(tmp_path / "run", named)
    heard: list[str] = []
    page = fit_page(folder, named, command="graphkin report run", say=heard.append)
    words = words_of(page)
    assert told(" ".join(heard), "neighbours", "40", "tsne", "40", "weights") and len(heard) == 3
    for text in (
        "grace+ on <g>",
        "40 nodes",
        "81.50 ± 0.50",
        "raw features",
        "graphkin report run",
        "tau_pos",
        "w⁺",
    ):
        assert text in words
    figures = {figure["key"]: figure for figure in figures_of(page)}
    assert set(figures) == {"map", "loss", "weights"}
    assert figures["map"]["nodes"]["names"][0] == "</script><b>"
    assert set(figures["map"]["nodes"]["labels"]) == {"a & b", "c"}
    assert [entry["name"] for entry in figures["map"]["legend"]] == ["a & b (20)", "c (20)"]
    assert len(figures["loss"]["panels"][0]["data"][0]["y"]) == 3
    assert scripts_are_whole(page)
    assert fetched(page) == []


def test_a_warning_of_the_run_is_on_its_page(small: Graph, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", small)
    assert "Warning" not in words_of(fit_page(folder, small, layout="pca"))
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, "warning": "training collapsed."}))
    assert "Warning: training collapsed." in words_of(fit_page(folder, small, layout="pca"))


def test_fit_page_without_labels(small: Graph, tmp_path: Path) -> None:
    bare = replace(small, y=None, train_mask=None, val_mask=None, test_mask=None)
    page = fit_page(run_folder(tmp_path / "run", bare, kind="csv"), bare, layout="pca")
    words = words_of(page)
    assert told(words, "k-means", "too few nodes")
    assert {figure["key"] for figure in figures_of(page)} == {"map", "loss"}


@pytest.mark.parametrize("method", ["grace", "grace+(p)", "grace+(n)", "graph-mlp+"])
def test_fit_page_of_other_methods(small: Graph, tmp_path: Path, method: str) -> None:
    page = fit_page(run_folder(tmp_path / "run", small, method), small, layout="pca")
    assert ('<section id="weights">' in page) == ("+" in method) == ("weights" in {one["key"] for one in figures_of(page)})


def test_refused_folders(small: Graph, tmp_path: Path) -> None:
    with refused(OutputError, tmp_path, "run.json", "graphkin fit"):
        fit_page(tmp_path, small)
    folder = run_folder(tmp_path / "run", small)
    with refused(SettingError, "layout", "'umap'", "tsne, pca"):
        fit_page(folder, small, layout="umap")
    other = Graph.from_arrays(torch.ones(30, 16), torch.tensor([[0, 1], [1, 2]]))
    with refused(InputError, "40 nodes", "'graph'", "30"):
        fit_page(folder, other)
    np.save(folder / "embeddings.npy", np.full((40, 8), np.nan))
    with refused(InputError, "embeddings", "finite"):
        fit_page(folder, small)
    (folder / "embeddings.npy").unlink()
    with refused(OutputError, folder, "embeddings.npy", "embeddings.parquet", "embeddings.csv"):
        fit_page(folder, small)
    for text, fact in (("{", "graphkin fit"), ("[]", "list"), ("{}", "method")):
        (folder / "run.json").write_text(text)
        with refused(OutputError, folder / "run.json", "damaged", fact):
            fit_page(folder, small)


def test_missing_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    whole_plotly.cache_clear()
    monkeypatch.setattr(page_module, "plotly_js", whole_plotly)
    monkeypatch.setitem(sys.modules, "plotly", None)
    with refused(InputError, "plotly", "pip install 'graphkin[report]'"):
        reproduction_page([], [], "")


def test_nearest_nodes_are_those_of_a_plain_loop() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 6))
    graph = Graph.from_arrays(torch.ones(30, 1), torch.tensor([[0], [1]]))
    found = node_map(rows, graph, "pca")
    for node in range(30):
        cosines = [
            (float(rows[node] @ rows[other] / np.linalg.norm(rows[node]) / np.linalg.norm(rows[other])), other)
            for other in range(30)
            if other != node
        ]
        best = sorted(cosines, reverse=True)[:NEIGHBOURS]
        assert found.nearest[node].tolist() == [other for _, other in best]
        assert found.similarities[node] == pytest.approx([cosine for cosine, _ in best], abs=1e-5)


def test_map_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphkin.report.map.NODES", 10)
    rows = np.random.default_rng(1).normal(size=(60, 4))
    labels = torch.arange(60) % 20
    labels[3] = -1
    graph = Graph.from_arrays(torch.ones(60, 1), torch.tensor([[0], [1]]), labels)
    found = node_map(rows, graph, "pca")
    assert found.points.shape == (10, 2)
    assert found.nodes == 60
    assert len(set(found.names)) == len(found.names) >= 10
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for place, name in enumerate(found.names[:10]):
        cosines = unit @ unit[int(name)]
        cosines[int(name)] = -2
        assert [int(found.names[near]) for near in found.nearest[place]] == np.argsort(-cosines)[:NEIGHBOURS].tolist()


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("layout", ["tsne", "pca"])
def test_maps_of_few_or_equal_nodes(nodes: int, layout: str) -> None:
    graph = Graph.from_arrays(torch.ones(nodes, 1), torch.zeros(2, 0, dtype=torch.long))
    for rows in (np.ones((nodes, 3)), np.zeros((nodes, 3)), np.random.default_rng(0).normal(size=(nodes, 1))):
        found = node_map(rows, graph, layout)
        assert found.points.shape == (nodes, 2)
        assert np.isfinite(found.points).all()
        assert found.nearest.shape == (nodes, min(NEIGHBOURS, nodes - 1))


def test_maps_are_the_same_every_time() -> None:
    rows = np.random.default_rng(2).normal(size=(50, 8))
    graph = Graph.from_arrays(torch.ones(50, 1), torch.tensor([[0], [1]]))
    assert np.array_equal(node_map(rows, graph).points, node_map(rows, graph).points)


def test_more_classes_than_colours_differ_in_shape() -> None:
    labels = torch.arange(40) % 20
    labels[0] = -1
    graph = Graph.from_arrays(torch.ones(40, 1), torch.tensor([[0], [1]]), labels)
    figure = map_figure(node_map(np.random.default_rng(0).normal(size=(40, 4)), graph, "pca"))
    assert len({(entry.colour, entry.symbol) for entry in figure.legend}) == 21
    assert figure.legend[-1].name == "no label (1)"


@pytest.mark.parametrize("method", ["grace+", "grace+(p)", "grace+(n)", "graph-mlp+"])
def test_weights_by_class_are_those_of_a_plain_loop(small: Graph, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights_module, "BLOCK", 7)
    assert small.y is not None
    labels = small.y.clone()
    labels[[2, 25]] = -1
    graph = replace(small, y=labels)
    chosen = method_named(method)
    block = weights_for(graph, chosen, stored="nothing").block()
    attract, repel, own = (part.double().exp().tolist() for part in block)
    known = [node for node in range(40) if labels[node] >= 0]
    sums = {"same": 0.0, "other": 0.0, "repel same": 0.0, "repel other": 0.0, "own": 0.0, "all": 0.0}
    pairs = {"same": 0, "other": 0}
    counts = []
    for i in known:
        sums["own"] += own[i]
        everything = [own[i], *(attract[i][j] for j in range(40) if j != i)]
        sums["all"] += sum(everything)
        shares = [weight / sum(everything) for weight in everything if weight > 0]
        counts.append(math.exp(-sum(share * math.log(share) for share in shares)) if shares else 0.0)
        for j in known:
            if i != j:
                kind = "same" if labels[i] == labels[j] else "other"
                pairs[kind] += 1
                sums[kind] += attract[i][j]
                sums[f"repel {kind}"] += repel[i][j]
    found = diagnose(graph, chosen)
    assert (found.anchors, found.labelled, found.sampled) == (38, 38, False)
    assert found.chance == pytest.approx(pairs["same"] / (pairs["same"] + pairs["other"]))
    assert found.own_share == (None if method == "graph-mlp+" else pytest.approx(sums["own"] / sums["all"]))
    attracted = sums["same"] + sums["other"]
    assert found.positive_share == (None if method == "grace+(n)" else pytest.approx(sums["same"] / attracted))
    repels = method != "grace+(p)"
    assert found.negative_same == (pytest.approx(sums["repel same"] / pairs["same"], rel=1e-5) if repels else None)
    assert found.negative_other == (pytest.approx(sums["repel other"] / pairs["other"], rel=1e-5) if repels else None)
    assert found.effective_positives == pytest.approx(np.median(counts), rel=1e-4)


def test_weights_of_many_nodes_are_sampled(small: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights_module, "ALL_ANCHORS_UP_TO", 30)
    monkeypatch.setattr(weights_module, "ANCHORS", 12)
    found = diagnose(small, method_named("grace+"))
    assert (found.anchors, found.labelled, found.sampled) == (12, 40, True)


def test_weights_are_judged_only_where_there_are_some_and_classes_to_judge_by(small: Graph) -> None:
    assert small.y is not None
    assert applies(small, method_named("grace+"))
    assert not applies(small, method_named("grace"))
    assert not applies(replace(small, y=None), method_named("grace+"))
    assert not applies(replace(small, y=torch.zeros_like(small.y)), method_named("grace+"))


def test_sentences_about_weights() -> None:
    positives, negatives = sentences(WeightDiagnosis(10, 10, 0.2, 0.3, 0.6, 0.9, 1.1, 4.0))
    assert told(positives, "30.0%", "w⁺", "60.0%", "20.0%")
    assert told(negatives, "w⁻", "0.900", "1.100", "1", "10.0%", "off")
    positives, negatives = sentences(WeightDiagnosis(10, 10, 0.2, None, 0.6, 1.2, 0.9, 4.0))
    assert told(positives, "w⁺", "60.0%", "20.0%") and "other view" not in positives
    assert told(negatives, "1.200", "0.900", "20.0%", "added")
    positives, negatives = sentences(WeightDiagnosis(10, 10, 0.2, 1.0, None, None, None, 1.0))
    assert "other view" in positives and not re.search(r"\d", positives)
    assert told(negatives, "weight 1")


def test_markdown_tables() -> None:
    made = summary({"one": 1.0})
    text = tables_as_markdown([made])
    base, plus = (made.cell(row, "one", "test") for row in ("Base", "Base+"))
    difference = plus.against_published(4)
    assert difference is not None
    assert "## Base and Base+" in text
    assert verdict(made) in text
    assert f"| Base (base) | {spread(base.mean, base.std)}<br><sub>paper 80.00 ± 1.00 " in text
    expected = f"(+1.00▲)<br><sub>paper 99.00 ± 0.50 ({signed(difference.points)}▼)</sub> | *missing*, n = 0 of 4<br>"
    assert f"| Base+ | {spread(plus.mean, plus.std)} {expected}" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count(" | ") for line in table} == {2}


def test_markdown_of_a_figure_is_a_table_for_each_dataset() -> None:
    made = summary({"one": 1.0}, protocol="few-labels", measures=("1", "3"), axis="labels of a class", published={})
    text = tables_as_markdown([made])
    assert "**one**, by labels of a class\n\n|  | 1 | 3 |\n" in text
    assert "**two**, by labels of a class" in text


def test_markdown_escapes() -> None:
    rows = (ExperimentRow("a|b <i> *x*", "grace"), ExperimentRow("Base", "grace"))
    assert r"a\|b \<i\> \*x\*" in tables_as_markdown([summary({"one": 1.0}, rows=rows)])


def test_run_record_has_what_the_page_needs(small: Graph) -> None:
    record = run_record(fit(small, "grace", epochs=1, hidden=4), small, {"not_scored": ""})
    assert {"method", "settings", "seed", "graph", "scores", "losses", "epochs", "versions", "machine", "finished"} <= set(
        record
    )


@pytest.mark.parametrize(
    ("part", "damage"),
    [
        ("graph", 7),
        ("graph", {}),
        ("scores", 7),
        ("scores", {"accuracy": [1]}),
        ("losses", 7),
        ("losses", ["a"]),
        ("settings", 7),
    ],
)
def test_a_damaged_run_file_is_named(small: Graph, part: str, damage: object, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", small)
    path = folder / "run.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**record, part: damage}), encoding="utf-8")
    with refused(OutputError, path, "damaged", part):
        fit_page(folder, small, layout="pca")


@pytest.mark.parametrize("rows", [np.zeros(40), np.full((40, 3), np.nan), np.zeros((40, 2, 2)), np.full((40, 2), "a")])
def test_embeddings_that_are_none_are_refused(small: Graph, rows: np.ndarray, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", small)
    np.save(folder / "embeddings.npy", rows)
    with refused(InputError, "embeddings"):
        fit_page(folder, small, layout="pca")
