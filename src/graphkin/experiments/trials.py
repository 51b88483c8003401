"""An experiment as trials: each is identified by the content of its graph, its settings and the version of the numbers."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

from graphkin.evaluation.free import BEST_FREE, FREE
from graphkin.evaluation.protocols import PROTOCOLS, Column, Protocol
from graphkin.experiments.definition import Experiment
from graphkin.methods import Method, key_form

NUMBERS = 1
"""Raised with every change that alters what a run gives; finished runs of other numbers are not used again."""


@dataclass(frozen=True)
class Trial:
    """What is repeated over seeds: a method or a baseline on a graph, scored by a protocol."""

    graph: str
    content: str
    """of the graph"""
    protocol: Protocol
    per_class: int | None
    """labels per class, for a protocol that counts them"""
    baseline: str | None
    method: Method | None
    only: tuple[str, ...] = ()
    """the measures that are computed; none named: all of the protocol's"""

    @functools.cached_property
    def description(self) -> str:
        """JSON that is the same for two trials exactly if they give the same numbers."""
        known: dict[str, object] = {
            "graph": self.graph,
            "content": self.content,
            "protocol": self.protocol.name,
            "per_class": self.per_class,
            "baseline": self.baseline,
            "method": None if self.method is None else key_form(self.method),
            "numbers": NUMBERS,
        }
        if self.baseline == BEST_FREE:
            known["among"] = list(FREE)
        if self.only:
            known["only"] = list(self.only)
        return json.dumps(known, sort_keys=True)

    @functools.cached_property
    def key(self) -> str:
        return hashlib.sha256(self.description.encode()).hexdigest()[:16]

    @property
    def columns(self) -> Mapping[str, Column]:
        """All measures that a run gives."""
        if self.per_class is None:
            return {name: column for name, column in self.protocol.columns.items() if not self.only or name in self.only}
        return {str(self.per_class): self.protocol.column(str(self.per_class))}

    def alone(self, measure: str) -> tuple[Trial, str] | None:
        """The trial and measure with the same numbers by the protocol that a measure comes from; None if that is its own."""
        column = self.columns[measure]
        if column.protocol is None:
            return None
        protocol = PROTOCOLS[column.protocol]
        name = next(name for name, one in protocol.columns.items() if one == replace(column, protocol=None))
        only = (name,) if self.baseline == BEST_FREE and len(protocol.columns) > 1 else ()
        return replace(self, protocol=protocol, only=only), name

    @property
    def epochs(self) -> int:
        """0 for a baseline, which is not trained."""
        return 0 if self.method is None or self.baseline is not None else self.method.optimiser.epochs

    @property
    def similarity(self) -> Hashable:
        return None if self.method is None else similarity_of(self.method)


def similarity_of(method: Method) -> Hashable:
    """The settings of the similarity that a method weighs nodes by; None for a method without one."""
    settings: Hashable = method.similarity
    return settings


def trials_of(
    experiment: Experiment, contents: Mapping[str, str], epochs: int | None = None
) -> dict[tuple[str, str, str], tuple[Trial, range]]:
    """The trial and the seeds behind every cell (row, dataset, measure) of graphs with these contents; cells may share one."""
    found = {}
    protocol = experiment.scored_by
    for dataset in experiment.datasets:
        if dataset not in contents:
            continue
        for row in experiment.rows:
            method = row.chosen(dataset, epochs)
            for measure in experiment.measures:
                per_class = int(measure) if protocol.by_labels else None
                only = _only(experiment) if row.baseline == BEST_FREE else ()
                trial = Trial(dataset, contents[dataset], protocol, per_class, row.baseline, method, only)
                found[row.name, dataset, measure] = trial, experiment.seeds_of(row, dataset)
    return found


def _only(experiment: Experiment) -> tuple[str, ...]:
    """What "best free" measures: it scores eleven rows, so nothing that is not asked for."""
    columns = experiment.scored_by.columns
    return tuple(name for name in columns if name in experiment.measures) if len(experiment.measures) < len(columns) else ()
