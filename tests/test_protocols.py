from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from graphkin import Graph, Split, evaluate
from graphkin.errors import SettingError
from graphkin.evaluation.protocols import PROTOCOLS, Protocol
from graphkin.evaluation.scoring import Subject, Values
from graphkin.evaluation.split_sources import RANDOM, Option
from graphkin.graphs.splits import random_split
from tests.wording import refused

ROOT = Path(__file__).parents[1]


def nearest_mean(subject: Subject, power: float = 2.0) -> Values:
    """Every node is of the class whose mean it is nearest to."""
    found = []
    for split in subject.splits:
        train, test = split.train.numpy(), split.test.numpy()
        classes = np.unique(subject.labels[train])
        means = np.stack([subject.rows[train][subject.labels[train] == c].mean(axis=0) for c in classes])
        distances = (np.abs(subject.rows[test, None] - means) ** power).sum(axis=2)
        found.append(100 * float((classes[distances.argmin(axis=1)] == subject.labels[test]).mean()))
    return {"nearest": tuple(found)}


def positive(name: str, value: object) -> None:
    if not isinstance(value, float) or value <= 0:
        raise SettingError(f"{name} must be above 0, found {value}.")


NEAREST = Protocol(
    "nearest mean",
    "the class whose mean is nearest",
    {"nearest": "test accuracy"},
    nearest_mean,
    RANDOM,
    score_options=(Option("power", 2.0, positive, "of the distance"),),
)


@pytest.fixture
def rows(small: Graph) -> Tensor:
    assert small.y is not None
    noise = torch.rand(40, 3, generator=torch.Generator().manual_seed(0))
    return noise + torch.nn.functional.one_hot(small.y, 3)


@pytest.fixture
def registered() -> Iterator[Protocol]:
    yield PROTOCOLS.add(NEAREST.name, NEAREST)
    del PROTOCOLS._entries[NEAREST.name]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_protocol_gives_the_measures_it_promises(name: str, small: Graph, rows: Tensor) -> None:
    protocol = PROTOCOLS[name]
    options: dict[str, Any] = {"train": 0.3, "val": 0.3} if protocol.splits is not None and protocol.splits.replaceable else {}
    small = protocol.trained_on(small, 0)
    scores = evaluate(rows, small, protocol=name, splits=1, **options)
    assert scores.protocol == protocol.name == name
    assert list(scores.values) == list(protocol.measures)
    assert all(0 <= value <= 100 for values in scores.values.values() for value in values)
    assert scores == evaluate(rows, small, protocol=protocol, splits=1, **options)
    settled = {option.name: option.default for option in protocol.options} | options
    assert scores == evaluate(rows, small, protocol=protocol, splits=1, **settled), "defaults are what is used without them"


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_protocol_can_be_sent_to_another_process(name: str) -> None:
    assert pickle.loads(pickle.dumps(PROTOCOLS[name])) == PROTOCOLS[name]


def test_options_that_a_protocol_does_not_have_are_refused(small: Graph, rows: Tensor) -> None:
    with refused(SettingError, "grace", "per_class", "train, val, ratio"):
        evaluate(rows, small, per_class=3)
    with refused(SettingError, "few-labels", "'ratio'", "per_class"):
        evaluate(rows, small, protocol="few-labels", ratio=0.1)
    for name in ("public", "clustering", "search", "links"):
        with refused(SettingError, name, "train"):
            evaluate(rows, small, protocol=name, train=0.3)
    with refused(SettingError, "'raito'", "'ratio'"):
        evaluate(rows, small, raito=0.1)
    with refused(SettingError, "per_class", "1", "0"):
        evaluate(rows, small, protocol="few-labels", per_class=0)
    with refused(SettingError, "train", "None"):
        evaluate(rows, small, train=None)


@pytest.mark.slow
def test_splits_are_refused_where_a_protocol_cannot_use_them(small: Graph, rows: Tensor) -> None:
    own = [random_split(40, train=0.3, val=0.3)]
    for name, protocol in PROTOCOLS.items():
        if protocol.splits is None or not protocol.splits.replaceable:
            with refused(SettingError, "splits", name, "grace, gca"):
                evaluate(rows, small, protocol=name, splits=own)
    with refused(SettingError, "train", "splits"):
        evaluate(rows, small, splits=own, train=0.3)
    with refused(SettingError, "graphkin.Split"):
        evaluate(rows, small, splits=[own[0], 3])  # type: ignore[list-item]
    several = replace(small, public_splits=tuple(random_split(40, train=0.3, val=0.3, seed=seed) for seed in range(2)))
    assert len(evaluate(rows, several, protocol="gca").test) == 2
    with refused(SettingError, "train", "0.2", "2 public splits"):
        evaluate(rows, several, protocol="gca", train=0.2)


def test_a_protocol_of_ones_own(small: Graph, rows: Tensor, registered: Protocol) -> None:
    options: dict[str, Any] = {"train": 0.3, "val": 0.3}
    scores = evaluate(rows, small, protocol=NEAREST, splits=3, **options)
    assert scores.protocol == "nearest mean" and len(scores.test) == 3 and scores.mean > 80
    assert evaluate(rows, small, protocol="nearest mean", splits=3, **options) == scores
    assert [option.name for option in NEAREST.options] == ["train", "val", "ratio", "power"]
    assert evaluate(rows, small, protocol=NEAREST, splits=3, power=0.1, **options) != scores
    own = Split(torch.tensor([0, 20]), torch.tensor([1, 21]), torch.tensor([2, 22]))
    assert evaluate(rows, small, protocol=NEAREST, splits=[own], power=1.0).test == (100.0,)
    with refused(SettingError, "power", "-1.0"):
        evaluate(rows, small, protocol=NEAREST, power=-1.0)
    with refused(SettingError, "nearest mean"):
        PROTOCOLS.add("nearest mean", replace(NEAREST, description="another"))


@pytest.mark.parametrize("values", [{}, {"other": (1.0,)}, {"nearest": ()}, 7.0])
def test_a_protocol_that_does_not_give_what_it_promises(small: Graph, rows: Tensor, values: Any) -> None:
    with refused(SettingError, "nearest mean", "nearest"):
        evaluate(rows, small, protocol=replace(NEAREST, splits=None, score=lambda subject, **options: values))


def test_refused_protocols() -> None:
    with refused(SettingError, "measure", "nearest mean"):
        replace(NEAREST, measures={})
    with refused(SettingError, "'train'"):
        replace(NEAREST, score_options=(Option("train", 1, positive, ""),))
    with refused(SettingError, "'seed'"):
        replace(NEAREST, score_options=(Option("seed", 1, positive, ""),))
    with refused(SettingError, "per_class"):
        replace(NEAREST, by_labels=True)
    with refused(SettingError, "7"):
        replace(NEAREST, name=7)  # type: ignore[arg-type]


def test_the_documents_list_the_protocols() -> None:
    """Those that ship with graphkin, and nothing else: name by name, the description word for word, with every option."""
    told = " ".join((evaluate.__doc__ or "").split())
    assert re.findall(r"^    ([a-z-]+): ", inspect.getdoc(evaluate) or "", flags=re.MULTILINE) == list(PROTOCOLS)
    section = (ROOT / "docs/math.md").read_text(encoding="utf-8").split("## 6.")[1].split("### ")[0]
    listed = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
    assert [cells[0].strip("|` ") for cells in listed] == list(PROTOCOLS)
    for protocol, cells in zip(PROTOCOLS.values(), listed, strict=True):
        assert f"{protocol.name}: {protocol.description}." in told
        assert cells[1] == protocol.description
        assert cells[2] == ", ".join(f"`{name}`" for name in protocol.measures if not name.startswith("val_"))
        assert cells[3].strip("| ") == ", ".join(f"`{option.name}`" for option in protocol.options)
        for option in protocol.options:
            assert f"``{option.name}={option.default}``" in told
    for page in ("data", "reproduce"):
        table = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8").split("\n| protocol | ")[1].split("\n\n")[0]
        first = [line.split(" | ")[0] for line in table.splitlines()[2:]]
        assert re.findall(r"`(.*?)`", " ".join(first)) == list(PROTOCOLS)
    columns = dict(re.findall(r"`([a-z-]+)`[^|]*\| (.*) \|", table))
    for protocol in PROTOCOLS.values():
        shown = re.findall(r"`(.*?)`", columns.get(protocol.name) or columns["gca"])
        assert shown == (list(protocol.columns) or ["1", "2", "3"])
