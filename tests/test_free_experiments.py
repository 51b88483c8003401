"""Free rows in experiments: run, stored with the row that was chosen, exported, summarised and told."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graphkin.errors import OutputError, SettingError
from graphkin.evaluation.free import BEST_FREE, FREE
from graphkin.experiments import FREE as SHIPPED_FREE
from graphkin.experiments import experiment_named, parse, scoring
from graphkin.experiments.execute import execute
from graphkin.experiments.jobs import jobs_of
from graphkin.experiments.outcomes import Outcome
from graphkin.experiments.store import Store
from graphkin.experiments.summary import summarise
from graphkin.experiments.trials import trials_of
from graphkin.graphs.graph import Graph
from graphkin.graphs.synthetic import community_graph
from graphkin.report.reading import choices
from graphkin.report.result_tables import result_tables
from tests.test_store import DESCRIPTION, RUN
from tests.wording import refused, told

ALL_ROWS = "\n".join(f'[[rows]]\nname = "{name}"\nbaseline = "{name}"' for name in (*FREE, BEST_FREE))
DEFINITION = f"""
title = "The bar"
protocol = "grace"
seeds = 2
datasets = ["small"]
measures = ["2 %", "10 %"]
{ALL_ROWS}
"""


@pytest.fixture(scope="module")
def graph() -> Graph:
    return community_graph(300, seed=0)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "_measured", {})
    monkeypatch.setattr(scoring, "_last_row", {})


def filled(path: Path, graph: Graph) -> Store:
    store = Store(path)
    for job in jobs_of([parse("bar", DEFINITION)], {"small": graph}, set()):
        for found in execute(job, graph):
            assert isinstance(found, Outcome)
            store.add(found, job.trial.description)
    return store


def test_the_best_is_the_row_that_validation_says(graph: Graph, tmp_path: Path) -> None:
    experiment = parse("bar", DEFINITION)
    with closing(filled(tmp_path / "a.sqlite", graph)) as store:
        summary = summarise(experiment, store)
        for measure in experiment.measures:
            best = summary.cell(BEST_FREE, "small", measure)
            rows = {name: summary.cell(name, "small", measure) for name in FREE}
            for seed in (0, 1):
                assert best.val[seed] == max(cell.val[seed] for cell in rows.values())
                assert best.test[seed] == rows[best.chosen[seed]].test[seed]
                first = next(name for name, cell in rows.items() if cell.val[seed] == best.val[seed])
                assert best.chosen[seed] == first, "the first of equals"
            assert not rows["2 hops"].chosen
        assert told(choices(summary), "best free", "or others", "small")
        listed = {(cell["row"], cell["measure"]): cell for cell in summary.as_dict()["cells"]}
        assert listed[BEST_FREE, "10 %"]["chosen"] == best.chosen and "chosen" not in listed["1 hop", "10 %"]
        details = [cells[0].detail for name, cells in result_tables(summary)[0].rows if name == BEST_FREE]
        assert "chosen: " in details[0]
        for kind in ("json", "csv"):
            store.export(tmp_path / f"b.{kind}")
        assert any(line.endswith(f",{best.chosen[0]},") for line in (tmp_path / "b.csv").read_text().splitlines())
        with closing(Store(tmp_path / "b.json", read_only=True)) as again, closing(Store(tmp_path / "c.sqlite")) as merged:
            assert again.outcomes() == store.outcomes()
            assert merged.merge(again) == len(store.outcomes()) and merged.outcomes() == store.outcomes()


def test_alone_it_is_the_same_and_no_row_is_scored_twice(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = jobs_of([parse("bar", DEFINITION)], {"small": graph}, set())
    (alone,) = execute(next(job for job in jobs if job.trial.baseline == BEST_FREE and job.seeds == (0,)), graph)
    counted: list[int] = []
    score = scoring.score

    def counting(*given: Any) -> scoring.Measured:
        counted.append(1)
        return score(*given)

    monkeypatch.setattr(scoring, "_measured", {})
    monkeypatch.setattr(scoring, "score", counting)
    found = [one for job in jobs for one in execute(job, graph) if job.trial.baseline == BEST_FREE]
    assert len(counted) == 2 * len(FREE)
    assert isinstance(alone, Outcome) and isinstance(found[0], Outcome)
    assert (found[0].test, found[0].val, found[0].chosen) == (alone.test, alone.val, alone.chosen)


def test_stores_of_earlier_versions_have_no_choices(tmp_path: Path) -> None:
    path, chosen = tmp_path / "a.sqlite", replace(RUN, seed=4, chosen={"10 %": "2 hops"})
    with closing(Store(path)) as store:
        store.add(RUN, DESCRIPTION)
        store.export(tmp_path / "a.json")
    with closing(sqlite3.connect(path)) as database:
        assert not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'choices'").fetchall()
    assert "choices" not in json.loads((tmp_path / "a.json").read_text())
    with closing(Store(path, read_only=True)) as store:
        assert store.outcomes() == [RUN]
    with closing(Store(path)) as store:
        store.add(chosen, DESCRIPTION)
        store.add(replace(chosen, chosen={"10 %": "1 hop"}), DESCRIPTION)
        assert store.outcomes() == [RUN, chosen], "the first result stays"


def test_a_choice_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(Store(path)) as store:
        store.add(replace(RUN, chosen={"10 %": "2 hops"}), DESCRIPTION)
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE choices SET chosen = '{\"10 %\": 7}'")
        database.commit()
    with refused(OutputError, path, "chosen"):
        Store(path)


def test_keys_know_what_was_chosen_among(monkeypatch: pytest.MonkeyPatch) -> None:
    """A larger bank is another trial; rows that it has already keep their keys."""
    experiment = parse("bar", DEFINITION)

    def keys() -> dict[str, str]:
        return {row: trial.key for (row, _, _), (trial, _) in trials_of(experiment, {"small": "c"}).items()}

    before = keys()
    monkeypatch.setattr("graphkin.experiments.trials.FREE", {**FREE, "16 hops": None})
    after = keys()
    assert {row for row in before if before[row] != after[row]} == {BEST_FREE}


def test_keys_of_committed_runs_stay() -> None:
    """Those of rows without training, which are easy to write down."""
    experiment = experiment_named("gca")
    found = {row: trial.key for (row, dataset, _), (trial, _) in trials_of(experiment, {"photo": "c"}).items()}
    assert found["raw features"] == "a34f2187ce407b98" and found["propagated features"] == "0dde1a5bb3d56f57"


def test_there_must_be_validation_nodes_to_choose_by() -> None:
    text = DEFINITION.replace('"grace"', '"clustering"').replace('["2 %", "10 %"]', '["nmi"]')
    with refused(SettingError, "'best free'", "validation", "grace", "gca", "public", "few-labels", "clustering"):
        parse("bar", text)
    rows = text.replace(f'[[rows]]\nname = "{BEST_FREE}"\nbaseline = "{BEST_FREE}"', "")
    assert len(parse("bar", rows).rows) == len(FREE), "the others are scored by any protocol"
    with refused(SettingError, "'2 hosp'", "'2 hops'"):
        parse("bar", DEFINITION.replace('baseline = "2 hops"', 'baseline = "2 hosp"'))
    with refused(SettingError, "method", "baseline", "grace", "2 hops"):
        parse("bar", DEFINITION.replace('baseline = "2 hops"', 'baseline = "2 hops"\nmethod = "grace"'))


@pytest.mark.parametrize("name", SHIPPED_FREE)
def test_shipped_definitions_have_the_whole_bank(name: str) -> None:
    experiment = experiment_named(name)
    assert [row.baseline for row in experiment.rows] == [row.name for row in experiment.rows] == [*FREE, BEST_FREE]
    assert set(experiment.datasets) == ({"computers", "photo", "wikics", "cs"} if name == "free-gca" else ALL_GRAPHS)


ALL_GRAPHS = {"cora", "citeseer", "pubmed", "dblp", "computers", "photo", "cs"}
