from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from scipy import stats

from graphkin.errors import SettingError
from graphkin.evaluation.baselines import BASELINES
from graphkin.evaluation.protocols import PROTOCOLS
from graphkin.experiments import BEYOND, NAMES, SHIPPED, Experiment, experiment_named, experiments_named, parse
from graphkin.experiments.definition import is_own_graph
from graphkin.experiments.jobs import jobs_of
from graphkin.experiments.store import Store
from graphkin.experiments.summary import Cell, summarise
from graphkin.experiments.trials import trials_of
from graphkin.graphs.catalogue import DATASETS
from graphkin.graphs.graph import Graph
from tests.test_store import RUN
from tests.wording import refused

SMALL = """
title = "Small"
protocol = "grace"
seeds = 3
datasets = ["small"]
measures = ["10 %"]
base = "one"
[[rows]]
name = "one"
method = "grace"
[[rows]]
name = "two"
method = "grace+"
seeds = { small = 2 }
[[rows]]
name = "nothing"
baseline = "raw features"
[published."10 %".two]
small = [80.0, 2.0]
"""


CLUSTERING = """
title = "Small"
protocol = "clustering"
seeds = 3
datasets = ["small"]
measures = ["nmi", "ari"]
[[rows]]
name = "two"
method = "grace+"
"""


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_experiments_are_about_known_graphs_and_published_rows_exist(name: str) -> None:
    experiment = experiment_named(name)
    own = {dataset for dataset in experiment.datasets if is_own_graph(dataset)}
    assert set(experiment.datasets) - own <= set(DATASETS) and (not own or name.endswith("-more"))
    rows = {row.published_as or row.name for row in experiment.rows}
    for measure, published in experiment.published.items():
        assert measure in experiment.measures
        assert set(published) <= rows
        for values in published.values():
            assert set(values) == set(experiment.datasets)


@pytest.mark.parametrize(
    ("name", "row", "dataset", "measure", "value"),
    [
        ("gca", "GCA", "computers", "test", (87.49, 0.39)),
        ("gca", "GCA+ (mean pooling, authors' settings)", "wikics", "test", (78.64, 0.18)),
        ("graph-mlp", "Graph-MLP+", "pubmed", "test", (81.42, 0.92)),
        ("ablation-graph-mlp", "Graph-MLP+ (F): features only", "cora", "test", (61.80, 0.61)),
        ("ablation-grace", "GRACE+ (N): negative weights only", "dblp", "10 %", (84.89, 0.26)),
        ("grace-ratios", "GRACE", "citeseer", "10 %", (71.23, 0.86)),
        ("grace-ratios", "GRACE", "citeseer", "2 %", None),
    ],
)
def test_published_numbers(name: str, row: str, dataset: str, measure: str, value: tuple[float, float] | None) -> None:
    experiment = experiment_named(name)
    (found,) = (one for one in experiment.rows if one.name == row)
    assert experiment.published_for(found, dataset, measure) == value


def test_rows_with_mean_pooling_have_the_authors_temperatures() -> None:
    gca, grace = experiment_named("gca"), experiment_named("grace-ratios")
    for experiment, dataset, expected in ((gca, "photo", (0.001, 0.1, 0.5)), (grace, "pubmed", (1, 0.1, 0.7))):
        (row,) = (row for row in experiment.rows if "mean pooling" in row.name)
        method = row.chosen(dataset)
        assert method is not None
        settings = method.settings()
        assert (settings["tau_pos"], settings["tau_neg"], settings["beta"]) == expected
        assert settings["pooling"] == "mean"


WEIGHTS = {"p": ("tau_pos", "effective_positives"), "n": ("tau_neg", "effective_negatives")}


@pytest.mark.parametrize("dataset", ["cora", "citeseer", "pubmed", "dblp"])
@pytest.mark.parametrize(("pooling", "whole_row"), [("sum", "GRACE+"), ("mean", "GRACE+ (mean pooling, authors' settings)")])
def test_ablations_are_parts_of_the_same_settings(pooling: str, whole_row: str, dataset: str) -> None:
    chosen = {row.name: row.chosen(dataset) for row in experiment_named("ablation-grace").rows}
    methods = {name: method for name, method in chosen.items() if method and method.settings()["pooling"] == pooling}
    assert len(methods) == {"sum": 6, "mean": 5}[pooling]
    whole = methods[whole_row]
    assert whole in [row.chosen(dataset) for row in experiment_named("grace-ratios").rows if row.name == whole_row]
    for name, method in methods.items():
        settings = method.settings()
        for part, other in (("p", "n"), ("n", "p")):
            has = not (name == "GRACE" or f"({other.upper()})" in name)
            assert {one: settings.get(one) for one in WEIGHTS[part]} == {
                one: whole.settings()[one] if has else None for one in WEIGHTS[part]
            }
        assert method.encoder == whole.encoder
        beta = {"grace": None, "grace+(g)": 0.0, "grace+(f)": 1.0}.get(method.name, whole.settings()["beta"])
        assert settings.get("beta") == beta


@pytest.mark.parametrize("name", [name for name in BEYOND if name != "links"])
def test_what_the_paper_does_not_measure(name: str) -> None:
    """The graphs and methods of its tables of accuracies, with the same settings, and nothing published."""
    experiment, table = experiment_named(name), experiment_named({"grace": "grace-ratios", "gca": "gca"}[name.split("-")[-1]])
    assert experiment.datasets == table.datasets and experiment.base == table.base
    assert not experiment.published and "paper" in str(experiment.note)
    assert list(experiment.measures) == list(experiment.scored_by.measures)
    assert experiment.protocol == ("search" if name.startswith("similarity-search") else "clustering")
    rows = {row.name: row for row in table.rows}
    assert [row.name for row in experiment.rows][:3] == list(BASELINES)
    for row in experiment.rows:
        for dataset in experiment.datasets:
            assert row.chosen(dataset) == rows[row.name].chosen(dataset)


def test_a_grid_is_one_row_a_combination() -> None:
    grid = "[[rows]]\nname = 'g'\nmethod = 'grace+'\ngrid = { beta = [0.1, 0.2], tau_pos = [1] }\n"
    rows = parse("x", SMALL.replace("[published", grid + "[published")).rows[-2:]
    assert [row.name for row in rows] == ["g, beta 0.1, tau_pos 1", "g, beta 0.2, tau_pos 1"]
    methods = [row.chosen("small") for row in rows]
    assert [method.settings()["beta"] for method in methods if method is not None] == [0.1, 0.2]


def test_low_seeds_come_first_and_finished_runs_are_left_out(small: Graph) -> None:
    experiment = parse("x", SMALL)
    graphs = {"small": small}
    jobs = jobs_of([experiment, experiment], graphs, set(), lambda graph: 1)
    assert [(job.labels[0], job.seeds) for job in jobs] == [
        ("one", (0,)),
        ("one", (1,)),
        ("one", (2,)),
        ("nothing", (0,)),
        ("nothing", (1,)),
        ("nothing", (2,)),
        ("two", (0,)),
        ("two", (1,)),
    ], "rows without similarity follow each other"
    left = jobs_of([experiment], graphs, {(jobs[0].trial.key, 1)}, lambda graph: 8)
    assert [job.seeds for job in left] == [(0, 2), (0, 1, 2), (0, 1)]
    many = jobs_of([replace(experiment, seeds=7)], graphs, set(), lambda graph: 1)
    assert [job.seeds[0] for job in many if job.labels[0] != "two"] == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 5, 6]


def test_a_trial_is_known_by_settings_and_graph(small: Graph) -> None:
    experiment = parse("x", SMALL)

    def key(experiment: Experiment, content: str = "c", epochs: int | None = None) -> str:
        return trials_of(experiment, {"small": content}, epochs)["one", "small", "10 %"][0].key

    assert key(experiment) == key(parse("another name", SMALL))
    changed = parse(
        "x", SMALL.replace('name = "one"\nmethod = "grace"', 'name = "one"\nmethod = "grace"\nsettings = { tau = 0.5 }')
    )
    assert len({key(experiment), key(changed), key(experiment, "d"), key(experiment, epochs=7)}) == 4


def test_only_some_of_it() -> None:
    (gca,) = experiments_named(["gca"], ["photo"], seeds=5)
    assert gca.datasets == ("photo",)
    assert {len(gca.seeds_of(row, "photo")) for row in gca.rows} == {5}
    assert gca.in_paper == 20
    (one,) = experiments_named(["all"], rows=["GCA+"])
    assert [row.name for row in one.rows] == ["GCA+"]
    assert one.base is None
    assert [experiment.name for experiment in experiments_named(["all", "gca"])] == list(NAMES)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("title = ", ["cannot be read"]),
        (SMALL.replace("seeds = 3", "seeds = 0"), ["seeds", "1", "1000000", "0"]),
        (SMALL.replace('"10 %"]', '"11 %"]'), ["measure", "'11 %'", "2 %", "10 %"]),
        (SMALL.replace('"grace"\n', '"grce"\n', 1), ["protocol", "'grce'", *PROTOCOLS]),
        (SMALL.replace('method = "grace+"', 'method = "grace*"'), ["method", "'grace*'"]),
        (SMALL.replace('base = "one"', 'base = "won"'), ["base", "'won'", "one, two, nothing"]),
        (SMALL.replace('"raw features"', '"raw"'), ["baseline", "'raw'", "propagated features"]),
        (SMALL.replace('name = "two"', 'name = "one"'), ["rows", "names", "['one', 'one', 'nothing']"]),
        (SMALL.replace('["small"]', '["small", "small"]'), ["datasets", "('small', 'small')"]),
        (
            SMALL.replace('method = "grace+"', 'method = "grace+"\nbaseline = "raw features"'),
            ["'two'", "method", "baseline", "grace+", "raw features"],
        ),
        (SMALL.replace('method = "grace+"', 'method = "grace+"\nsettings = { tau = -1 }'), ["tau", "0", "-1"]),
        (SMALL.replace('method = "grace+"', 'methd = "grace+"'), ["'methd'", "'method'"]),
        (SMALL.replace("seeds = 3", 'seeds = "3"'), ["seeds", "'3'"]),
        (SMALL.replace("small = 2", "small = 2.5"), ["seeds", "2.5"]),
        (SMALL.replace('["small"]', '"small"'), ["datasets", "list", "'small'"]),
        (SMALL.replace('["small"]', "[]"), ["datasets", "empty", "()"]),
        (SMALL.replace('["10 %"]', "[10]"), ["measures", "strings", "10"]),
        (SMALL.replace('"Small"', "7"), ["title", "7"]),
        (SMALL.replace('name = "two"', "name = 2"), ["name", "2"]),
        (SMALL.replace('title = "Small"', 'title = "Small"\nnote = 7'), ["note", "7"]),
        (SMALL.replace("[80.0, 2.0]", "[80.0]"), ["published", "[mean, deviation]", "[80.0]"]),
        (SMALL.replace("[80.0, 2.0]", '"80"'), ["published", "[mean, deviation]", "'80'"]),
        (SMALL.replace('[published."10 %".two]\nsmall = [80.0, 2.0]', "[published]\nx = 7"), ["published", "7"]),
        (SMALL.replace('method = "grace+"', 'method = "grace+"\ngrid = { beta = 0.1 }'), ["grid", "lists", "0.1"]),
        (SMALL.replace('method = "grace+"', 'method = "grace+"\nsettings = 7'), ["settings", "table", "7"]),
        (SMALL.replace('title = "Small"\n', ""), ["title"]),
        (SMALL.replace('method = "grace+"', 'method = "grace+"\nmode = 1'), ["'mode'", "'method'"]),
        (SMALL.replace('method = "grace+"', 'method = "grace+"\non.big = { tau = 1 }'), ["'two'", "'big'", "small"]),
        (SMALL.replace('"10 %".two]', '"10 %".three]'), ["published row", "'three'", "two"]),
        (SMALL.replace('"10 %".two]', '"9 %".two]'), ["published measure", "'9 %'", "10 %"]),
        (SMALL.replace("small = [80.0", "big = [80.0"), ["published dataset", "'big'", "small"]),
        (SMALL.replace("[80.0, 2.0]", "[nan, 2.0]"), ["published", "nan"]),
        (SMALL.replace("[[rows]]", "[[row]]"), ["'row'", "'rows'", "title, source"]),
        (SMALL.replace('"grace+"', '"graph-mlp"'), ["'two'", "labels", "public", "few-labels", "grace"]),
        (CLUSTERING.replace('"grace+"', '"graph-mlp"'), ["'two'", "labels", "public", "few-labels", "clustering"]),
        (CLUSTERING.replace('"nmi"', '"accuracy"'), ["measure", "'accuracy'", "nmi, ari"]),
        (SMALL.replace('"grace"\n', '"few-labels"\n', 1).replace("10 %", "03"), ["few-labels", "'3'", "'03'"]),
        ("x = " + "[" * 5000 + "]" * 5000, ["cannot be read"]),
    ],
)
def test_a_mistake_in_a_file_is_named(text: str, facts: list[str]) -> None:
    with refused(SettingError, "experiment x", *facts):
        parse("x", text)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_experiment_may_name_any_protocol(protocol: str) -> None:
    measures = list(PROTOCOLS[protocol].columns) or ["1", "3"]
    text = CLUSTERING.replace('protocol = "clustering"', f'protocol = "{protocol}"').replace('["nmi", "ari"]', str(measures))
    experiment = parse("x", text)
    assert experiment.scored_by is PROTOCOLS[protocol]
    for measure in measures:
        column = PROTOCOLS[protocol].column(measure)
        assert experiment.quantity(measure) == PROTOCOLS[column.protocol or protocol].measures[column.measure]
    trials = [trials_of(experiment, {"small": "c"})["two", "small", measure][0] for measure in measures]
    assert {json.loads(trial.description)["protocol"] for trial in trials} == {protocol}
    assert len({trial.key for trial in trials}) == (len(measures) if PROTOCOLS[protocol].by_labels else 1)


def test_unknown_names_and_files(tmp_path: Path) -> None:
    with refused(SettingError, *NAMES, "all"):
        experiments_named([])
    with refused(SettingError, "'gac'", "'gca'", *SHIPPED):
        experiments_named(["gac"])
    with refused(SettingError, tmp_path / "x.toml"):
        experiments_named([str(tmp_path / "x.toml")])
    with refused(SettingError, "dataset", "'cora'", "photo"):
        experiments_named(["gca"], ["cora"])
    with refused(SettingError, "row", "'GRACE'", "GCA+"):
        experiments_named(["gca"], rows=["GRACE"])


def test_a_cell_beside_the_published_one() -> None:
    cell = Cell({0: 80.0, 1: 82.0, 2: 81.0}, {}, 3, published=(79.0, 1.5))
    difference = cell.against_published(30)
    assert difference is not None
    expected = stats.ttest_ind_from_stats(81, 1, 3, 79.0, 1.5, 30, equal_var=False)
    assert tuple(difference) == pytest.approx((2.0, expected.pvalue))
    assert Cell({}, {}, 3, published=(79.0, 1.5)).against_published(30) is None
    single = Cell({0: 80.0}, {}, 3, published=(79.0, 1.5)).against_published(30)
    assert single is not None and single.points == 1 and math.isnan(single.p_value)


def test_gains_are_paired_by_seed() -> None:
    base = Cell({0: 70.0, 1: 80.0, 2: 90.0, 5: 10.0}, {}, 4)
    plus = Cell({0: 71.0, 1: 81.5, 2: 90.5, 7: 99.0}, {}, 4)
    gain = plus.paired_with(base)
    assert gain is not None
    expected = stats.ttest_rel([71.0, 81.5, 90.5], [70.0, 80.0, 90.0])
    assert tuple(gain) == pytest.approx((1.0, expected.pvalue))
    assert Cell({}, {}, 4).paired_with(base) is None
    constant = Cell({0: 71.0, 1: 81.0, 2: 91.0}, {}, 4).paired_with(base)
    assert constant is not None and math.isnan(constant.p_value)


def test_a_summary_counts_wanted_seeds_only(tmp_path: Path) -> None:
    experiment = parse("x", SMALL)
    store = Store(tmp_path / "s.sqlite")
    trial, _ = trials_of(experiment, {"small": "c"})["two", "small", "10 %"]
    for seed in (0, 1, 2):
        store.add(
            replace(RUN, trial=trial.key, seed=seed, test={"10 %": 80.0 + seed}, losses=(3.0, 1.0 + seed)), trial.description
        )
    summary = summarise(experiment, store)
    cell = summary.cell("two", "small", "10 %")
    assert dict(cell.test) == {0: 80.0, 1: 81.0}, "two asks for two seeds"
    assert cell.losses == (3.0, 1.5)
    assert cell.published == (80.0, 2.0)
    assert summary.cell("one", "small", "10 %").count == 0
    assert summary.runs == (2, 8)
    record = next(entry for entry in summary.as_dict()["cells"] if entry["row"] == "two")
    assert (record["mean"], record["seeds"], record["wanted"], record["gain"]) == (80.5, 2, 2, None)
    store.close()
