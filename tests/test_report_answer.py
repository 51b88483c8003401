"""The sentence that a run's page opens with, in every case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphkin import cluster
from graphkin.report.answer import Answer, answer
from tests.reports import scored
from tests.wording import told

FOLDER = Path("runs/my run")
NOISE = [0.2, -0.2, 0.1, -0.1, 0.0]


def given(kin: list[float], free: list[float] | None, name: str = "best free", **more: Any) -> Answer:
    """The answer for accuracies by split."""
    chosen = {"chosen": ["2 hops"] * len(kin)} if name == "best free" else {}
    baselines = {} if free is None else {name: scored(0, free, **chosen)}
    scores = {**scored(0, kin), "of": "kin", "baselines": {**baselines, **more.pop("others", {})}}
    graph = {"source": {"graph": "my graph.csv"}}
    return answer({"method": "kin", "graph": graph, "scores": scores, **more}, FOLDER, None, more.get("with_labels", False))


def test_better_and_significant() -> None:
    found = given([82 + e for e in NOISE], [80 - e for e in NOISE])
    assert told(
        found.sentence, "kin beats the best training-free row", "2.00 points", "82.00 %", "80.00 %", "significant", "p < 0.001"
    )
    assert found.kind == "above" and found.command is None
    assert told(" ".join(found.more), "5 splits", "paired", "2 hops")


def test_better_but_perhaps_by_chance() -> None:
    found = given([80.1, 80.0, 80.4, 79.8, 80.2], [80.0, 80.1, 79.9, 80.0, 80.0])
    assert told(found.sentence, "0.10 points", "above", "could be chance", "p = 0.4")
    assert found.kind == "level" and found.command == "graphkin evaluate 'runs/my run' --splits 20"


def test_level() -> None:
    found = given([80.0, 80.4, 79.6, 80.0], [80.2, 80.0, 79.8, 80.0])
    assert told(found.sentence, "level", "80.00 %", "80.00 %") and found.kind == "level"
    same = given([80.0, 81.0, 79.0], [80.0, 81.0, 79.0])
    assert told(same.sentence, "level") and same.kind == "level"


def test_worse_but_perhaps_by_chance() -> None:
    found = given([79.0, 80.5, 79.5, 80.0], [80.0, 80.0, 80.5, 79.5])
    assert told(found.sentence, "does not beat", "0.25 points", "below", "could be chance")
    assert found.kind == "level" and found.command == "graphkin fit 'my graph.csv' --method diffusion --set free=hop2"


def test_worse_says_what_to_do_instead() -> None:
    found = given([78 + e for e in NOISE], [80 - e for e in NOISE])
    assert told(found.sentence, "2.00 points below", "78.00 %", "80.00 %", "significant") and "beats" not in found.sentence
    assert found.kind == "below" and "instead" in found.more[-1]
    assert found.command == "graphkin fit 'my graph.csv' --method diffusion --set free=hop2"


def test_the_same_difference_on_every_split_needs_no_test() -> None:
    found = given([81.0, 82.0, 83.0], [80.0, 81.0, 82.0])
    assert told(found.sentence, "1.00 points above", "the same on every split") and found.kind == "above"


@pytest.mark.parametrize(("splits", "word"), [(1, "One split"), (2, "Two splits")])
def test_few_splits_allow_no_test(splits: int, word: str) -> None:
    found = given([82.0, 83.0][:splits], [80.0, 80.0][:splits])
    assert told(found.sentence, "above", word, "no test") and "significant" not in found.sentence
    assert found.kind == "open" and found.command is not None and "--splits 20" in found.command
    assert "level" in given([80.0], [80.0]).sentence


def test_runs_without_the_best_free_row() -> None:
    """Of an earlier version, and without baselines."""
    old = given([82 + e for e in NOISE], [80 - e for e in NOISE], "raw features", others={"untrained encoder": scored(99)})
    assert told(old.sentence, "beats", "raw features", "2.00 points", "significant")
    none = given([82.0, 82.5], None)
    assert told(none.sentence, "82.25 %", "not compared") and none.command is not None


def test_training_that_did_harm_is_named() -> None:
    untrained = {"untrained encoder": scored(0, [81 + e for e in NOISE])}
    assert "harm" in " ".join(given([78 - e for e in NOISE], [80.0] * 5, others=untrained).more)
    assert "harm" not in " ".join(given([82 - e for e in NOISE], [80.0] * 5, others=untrained).more)


def test_a_method_trained_with_labels_is_not_compared() -> None:
    found = given([82.0], None, with_labels=True)
    assert told(found.sentence, "82.00 %", "test nodes") and "trained with labels" in found.more[0]


def test_no_score() -> None:
    record = {"method": "kin", "graph": {}, "scores": {"not_scored": "too few nodes."}}
    found = answer(record, FOLDER, None, with_labels=False)
    assert "no score" in found.sentence and found.more == ("Too few nodes.",)


def test_clusters_stand_in_for_a_score() -> None:
    record = {"method": "kin", "graph": {}, "scores": {"not_scored": "no labels"}}
    draw = np.random.default_rng(0)
    apart = cluster(np.repeat(np.eye(3), 10, axis=0) + 0.01 * draw.normal(size=(30, 3)))
    found = answer(record, FOLDER, apart, with_labels=False)
    assert told(found.sentence, "3 clusters", "10 nodes")
    assert told(" ".join(found.more), "silhouette of 2 to 20 clusters", "next", "no labels") and "rough guide" not in " ".join(
        found.more
    )
    noise = answer(record, FOLDER, cluster(draw.normal(size=(200, 30))), with_labels=False)
    assert "rough guide" in " ".join(noise.more)
    alone = answer(record, FOLDER, cluster(np.ones((4, 2))), with_labels=False)
    assert told(alone.sentence, "1 cluster", "4 nodes") and "too few" in alone.more[0]
