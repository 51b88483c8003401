"""The answer that a run's page opens with: did training pay, by how much, and is that more than chance?"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphkin.evaluation.baselines import UNTRAINED
from graphkin.evaluation.comparison import Difference, paired
from graphkin.evaluation.free import BEST_FREE, FREE, named, settings_for
from graphkin.report.reading import counted, p_text
from graphkin.uses.cluster import Clusters

LEVEL = 0.05
"""differences that are smaller, in points, are none"""
OVERLAPPING = 0.25
"""clusters with a lower mean silhouette are hardly apart"""
MORE_SPLITS = 20

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    sentence: str
    kind: str = "open"
    """above, below, level or open, which decides on its colour"""
    more: tuple[str, ...] = ()
    command: str | None = None
    """what to run next"""


def answer(record: Mapping[str, Any], folder: Path, clusters: Clusters | None, with_labels: bool) -> Answer:
    """By run.json's ``record``. ``clusters`` are given for a graph without labels; ``with_labels`` is how it was trained."""
    scores = record["scores"]
    if clusters is not None:
        return _of_clusters(clusters)
    if "not_scored" in scores:
        return Answer("This run has no score.", more=(_sentence(scores["not_scored"]),))
    method, accuracy = record["method"], _percent(scores)
    if with_labels:
        told = f"{method} classifies {accuracy} of the test nodes correctly."
        return Answer(told, more=("It was trained with labels, so it is not compared with features that have seen none.",))
    free = _best_free(scores["baselines"])
    if free is None:
        told = f"{method} scores {accuracy}. The run was not compared with training-free features."
        return Answer(told, more=("This compares them:",), command=_on_more_splits(folder))
    return _compared(record, folder, *free)


def _of_clusters(found: Clusters) -> Answer:
    why = found.why.partition(": ")[2] or found.why
    more = [f"Why this number: {why}", "The graph has no labels, so there is no accuracy."]
    if found.silhouettes and max(found.silhouettes.values()) < OVERLAPPING:
        more.insert(1, "Clusters overlap at such a silhouette: take their number as a rough guide.")
    sentence = f"The embeddings form {counted(found.count, 'cluster')}, the largest of {counted(found.sizes[0], 'node')}."
    return Answer(sentence, more=tuple(more))


def _best_free(baselines: Mapping[str, Row]) -> tuple[str, Row] | None:
    """The row chosen by validation; of a run of an earlier version, which has none, the best of those that there are."""
    if BEST_FREE in baselines:
        return "the best training-free row", baselines[BEST_FREE]
    others = {name: row for name, row in baselines.items() if name != UNTRAINED}
    if not others:
        return None
    best = max(others, key=lambda name: float(others[name]["accuracy_mean"]))
    return f"the training-free row “{best}”", others[best]


def _compared(record: Mapping[str, Any], folder: Path, what: str, free: Row) -> Answer:
    scores, method = record["scores"], record["method"]
    gain = _gain(scores, free)
    if gain is None:
        return Answer(f"{method} scores {_percent(scores)}.")
    splits = len(scores["accuracy"])
    numbers = f"{_percent(scores)} against {_percent(free)}"
    more = [_about_splits(splits), _about_choice(free), _about_training(scores)]
    kind, sentence = _told(gain, splits, method, what, numbers)
    if kind == "open" or (kind == "level" and gain.points >= LEVEL):
        more.append("More splits can settle it:")
        return Answer(sentence, kind, tuple(filter(None, more)), _on_more_splits(folder))
    if kind == "above" or not free.get("chosen") or not set(free["chosen"]) <= set(FREE):
        return Answer(sentence, kind, tuple(filter(None, more)))
    more.append("Use those embeddings instead:" if kind == "below" else "Those embeddings cost no training:")
    command = f"graphkin fit {_graph_name(record)} {settings_for(free['chosen'])}"
    return Answer(sentence, kind, tuple(filter(None, more)), command)


def _told(gain: Difference, splits: int, method: str, what: str, numbers: str) -> tuple[str, str]:
    """The kind of answer, and the sentence."""
    by, side, sure = f"{abs(gain.points):.2f} points", "above" if gain.points > 0 else "below", p_text(gain.p_value)
    if splits < 3:
        few = "One split allows" if splits == 1 else "Two splits allow"
        where = f"is {by} {side} {what}" if abs(gain.points) >= LEVEL else f"is level with {what}"
        return "open", f"{method} {where} ({numbers}). {few} no test of whether that is chance."
    if gain.significant and side == "above":
        return side, f"{method} beats {what} by {by} ({numbers}), and the difference is significant ({sure})."
    if gain.significant:
        return side, f"{method} is {by} below {what} ({numbers}), and the difference is significant ({sure})."
    if abs(gain.points) < LEVEL:
        return "level", f"{method} and {what} are level ({numbers})."
    if math.isnan(gain.p_value):
        return side, f"{method} is {by} {side} {what} ({numbers}), the same on every split."
    if side == "above":
        return "level", f"{method} is {by} above {what} ({numbers}), but that could be chance ({sure})."
    return "level", f"{method} does not beat {what}: it is {by} below ({numbers}), which could be chance ({sure})."


def _on_more_splits(folder: Path) -> str:
    return f"graphkin evaluate {shlex.quote(str(folder))} --splits {MORE_SPLITS}"


def _about_splits(splits: int) -> str:
    return f"Accuracy over {splits} splits, with a paired t-test." if splits > 2 else ""


def _about_choice(free: Row) -> str:
    if not free.get("chosen"):
        return ""
    return f"The training-free row is the best on validation nodes, split by split: {named(free['chosen'])}."


def _about_training(scores: Row) -> str:
    """Whether training did harm."""
    untrained = scores["baselines"].get(UNTRAINED)
    harm = None if untrained is None else _gain(untrained, scores)
    if untrained is None or harm is None or harm.points <= 0 or not harm.significant:
        return ""
    return f"The untrained encoder scores higher, {_percent(untrained)}: training did harm."


def _gain(row: Row, base: Row) -> Difference | None:
    return paired(dict(enumerate(row["accuracy"])), dict(enumerate(base["accuracy"])))


def _percent(row: Row) -> str:
    return f"{row['accuracy_mean']:.2f} %"


def _graph_name(record: Mapping[str, Any]) -> str:
    source = record["graph"].get("source")
    name = source.get("graph") if isinstance(source, dict) else None
    return shlex.quote(name) if isinstance(name, str) else "GRAPH"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
