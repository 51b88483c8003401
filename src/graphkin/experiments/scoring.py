"""What a run is worth by its trial's protocol: rows that were trained or computed, and the best of the free ones."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from graphkin.evaluation.evaluate import evaluate
from graphkin.evaluation.free import FREE, FreeRows
from graphkin.evaluation.protocols import Protocol
from graphkin.evaluation.scores import Scores
from graphkin.experiments.trials import Trial
from graphkin.graphs.graph import Graph


@dataclass(frozen=True)
class Measured:
    """In percent, by measure: on test and on validation nodes."""

    test: dict[str, float]
    val: dict[str, float]
    chosen: dict[str, str] = field(default_factory=dict)
    """by measure, which row the numbers are of, where one was chosen"""


def score(trial: Trial, rows: Any, graph: Graph, seed: int) -> Measured:
    """All measures of rows by the trial's protocol; each seed has a split of its own."""
    test, val = {}, {}
    known: dict[Hashable, Scores] = {}
    for name, column in trial.columns.items():
        protocol = trial.protocol.scoring(column)
        asked = protocol.name, json.dumps(column.options, sort_keys=True)
        if asked not in known:
            splits = _splits(protocol, graph, seed)
            known[asked] = evaluate(rows, graph, protocol=protocol, splits=splits, seed=seed, **column.options)
        values = known[asked].values
        test[name] = values[column.measure][0]
        if f"val_{column.measure}" in values:
            val[name] = values[f"val_{column.measure}"][0]
    return Measured(test, val)


def _splits(protocol: Protocol, graph: Graph, seed: int) -> Any:
    in_turn = protocol.splits is not None and protocol.splits.in_turn and len(graph.public_splits) > 1
    return [graph.public_splits[seed % len(graph.public_splits)]] if in_turn else 1


_measured: dict[Hashable, Measured] = {}
_last_row: dict[Hashable, Any] = {}


def score_free(trial: Trial, name: str, graph: Graph, seed: int) -> Measured:
    """A free row, once in a process: "best free" asks for all of them again. The last row is kept for its next seed."""
    key = (graph.content, trial.protocol.name, trial.per_class, name, seed)
    if key not in _measured or not trial.columns.keys() <= _measured[key].test.keys():
        if (graph.content, name) not in _last_row:
            _last_row.clear()
            _last_row[graph.content, name] = FreeRows(graph)[name]
        _measured[key] = score(trial, _last_row[graph.content, name], graph, seed)
    return _measured[key]


def score_best_free(trial: Trial, graph: Graph, seed: int) -> Measured:
    """For every measure the free row that is best on validation nodes, the first of equals.

    A measure that validation nodes do not have is that of the row that is best by one that they have.
    """
    judged = [name for name, column in trial.columns.items() if trial.protocol.validated(column)]
    others = [name for name, column in trial.protocol.columns.items() if trial.protocol.validated(column)]
    judging = replace(trial, only=tuple(judged or others[-1:]))
    found = {name: score_free(judging, name, graph, seed) for name in FREE}
    best = {measure: max(found, key=lambda name: found[name].val[measure]) for measure in judging.columns}
    chosen = {measure: best.get(measure, next(iter(best.values()))) for measure in trial.columns}
    if len(judged) < len(chosen):
        found = {name: score_free(trial, name, graph, seed) for name in chosen.values()}
    return Measured(
        {measure: found[name].test[measure] for measure, name in chosen.items()},
        {measure: found[name].val[measure] for measure, name in chosen.items() if measure in judged},
        chosen,
    )
