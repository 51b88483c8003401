"""An experiment as data: which methods on which graphs, by which protocol, with how many seeds, beside which numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from graphkin.errors import SettingError, check_choice, check_text, check_whole
from graphkin.evaluation.baselines import EVERY_BASELINE, UNTRAINED
from graphkin.evaluation.free import BEST_FREE
from graphkin.evaluation.protocols import PROTOCOLS, Protocol
from graphkin.graphs.catalogue import DATASETS
from graphkin.methods import Method, ideal, method_named, presets

MOST_SEEDS = 10**6


@dataclass(frozen=True, eq=False)
class ExperimentRow:
    """A method or a baseline, with settings for all datasets and, in ``on``, for single ones."""

    name: str
    method: str | None = None
    baseline: str | None = None
    ideal: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    on: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    seeds: int | Mapping[str, int] | None = None
    """how many; by default the experiment's number"""
    published_as: str | None = None
    """its name in ``published``; its own by default"""
    trials: int | Mapping[str, int] | None = None
    """among how many settings validation nodes chose those of this row, on all datasets or on some; None: no search of ours"""

    def __post_init__(self) -> None:
        for name in ("name", "method", "baseline", "published_as"):
            check_text(name, getattr(self, name), optional=name != "name")
        check_form(isinstance(self.ideal, bool), "ideal", "true or false", self.ideal)
        check_form(isinstance(self.settings, Mapping), "settings", "a table", self.settings)
        check_form(is_table_of(self.on, Mapping), "on", "a table for each dataset", self.on)
        for name in ("seeds", "trials"):
            given = getattr(self, name)
            for count in given.values() if isinstance(given, Mapping) else (given,):
                if count is not None:
                    check_whole(name, count, at_least=1, at_most=MOST_SEEDS)
        if self.baseline is not None:
            check_choice("baseline", self.baseline, EVERY_BASELINE)
        if self.method is None and self.baseline in (None, UNTRAINED):
            raise SettingError(f"row {self.name!r} needs a method.")
        if self.method is not None and self.baseline not in (None, UNTRAINED):
            raise SettingError(f"row {self.name!r} must have a method or a baseline, found {self.method} and {self.baseline}.")

    @property
    def trained(self) -> bool:
        """Whether its rows come from training."""
        return self.method is not None and self.baseline is None and method_named(self.method).objective.trains

    def has_preset(self, dataset: str) -> bool:
        """Whether its method ships with settings for this dataset."""
        if self.method is None:
            return False
        return dataset.removesuffix("-bundled") in presets(method_named(self.method).name.partition("+")[0])

    def trials_on(self, dataset: str) -> int | None:
        return self.trials.get(dataset) if isinstance(self.trials, Mapping) else self.trials

    def chosen(self, dataset: str, epochs: int | None = None) -> Method | None:
        """The method with all its settings on a dataset; None for a baseline that has none."""
        if self.method is None:
            return None
        method = method_named(self.method, dataset if self.has_preset(dataset) else None)
        method = method.configure(**{**self.settings, **self.on.get(dataset, {})})
        if self.ideal:
            method = ideal(method)
        return method if epochs is None else method.configure(epochs=epochs)


@dataclass(frozen=True, eq=False)
class Experiment:
    name: str
    title: str
    source: str
    protocol: str
    seeds: int
    datasets: tuple[str, ...]
    measures: tuple[str, ...]
    rows: tuple[ExperimentRow, ...]
    base: str | None = None
    """the row that others are compared with, seed by seed"""
    axis: str | None = None
    """what the measures are points of, for a figure"""
    note: str | None = None
    """what to know before reading its table"""
    first_seed: int = 0
    published_seeds: int = 0
    """of the published numbers; 0: as many as here"""
    published: Mapping[str, Mapping[str, Mapping[str, tuple[float, float]]]] = field(default_factory=dict)
    """mean and standard deviation by measure, row and dataset"""

    def __post_init__(self) -> None:
        for name in ("title", "source", "protocol", "base", "axis", "note"):
            check_text(name, getattr(self, name), optional=name in ("base", "axis", "note"))
        for name in ("datasets", "measures"):
            listed = getattr(self, name)
            check_form(
                bool(listed) and all(isinstance(one, str) for one in listed), name, "a list of strings, not empty", listed
            )
            check_form(len(set(listed)) == len(listed), name, "different from each other", listed)
        check_whole("seeds", self.seeds, at_least=1, at_most=MOST_SEEDS)
        check_whole("first_seed", self.first_seed, at_least=0)
        check_whole("published_seeds", self.published_seeds, at_least=0)
        self._check_published()
        for measure in self.measures:
            self.scored_by.column(measure)
        names = [row.name for row in self.rows]
        if not names or len(set(names)) < len(names):
            raise SettingError(f"{self.name} needs rows with different names, found {names}.")
        if any(row.baseline == BEST_FREE for row in self.rows) and not self.scored_by.validates:
            fitting = [name for name, protocol in PROTOCOLS.items() if protocol.validates]
            raise SettingError(
                f"{BEST_FREE!r} needs validation nodes, which protocols {', '.join(fitting)} have, found {self.protocol}."
            )
        if self.base is not None:
            check_choice("base", self.base, names)

    def _check_published(self) -> None:
        shape = "tables of measures, rows and datasets that end in [mean, deviation]"
        check_form(is_table_of(self.published, Mapping), "published", shape, self.published)
        for rows in self.published.values():
            check_form(is_table_of(rows, Mapping), "published", shape, rows)
            for value in (value for values in rows.values() for value in values.values()):
                numbers = isinstance(value, list | tuple) and len(value) == 2
                check_form(
                    numbers and all(isinstance(n, int | float) and 0 <= n < math.inf for n in value), "published", shape, value
                )

    @property
    def scored_by(self) -> Protocol:
        return PROTOCOLS.named(self.protocol)

    def quantity(self, measure: str) -> str:
        """What a measure is, such as "test accuracy"."""
        column = self.scored_by.column(measure)
        return self.scored_by.scoring(column).measures[column.measure]

    def seeds_of(self, row: ExperimentRow, dataset: str) -> range:
        wanted = row.seeds.get(dataset) if isinstance(row.seeds, Mapping) else row.seeds
        return range(self.first_seed, self.first_seed + (wanted or self.seeds))

    @property
    def in_paper(self) -> int:
        """How many seeds are behind a published number."""
        return self.published_seeds or self.seeds

    def published_for(self, row: ExperimentRow, dataset: str, measure: str) -> tuple[float, float] | None:
        found = self.published.get(measure, {}).get(row.published_as or row.name, {}).get(dataset)
        return None if found is None else (float(found[0]), float(found[1]))

    @staticmethod
    def heading(dataset: str) -> str:
        """A dataset's name, or that of the file of one's own graph."""
        return Path(dataset).stem if is_own_graph(dataset) else dataset

    def only(
        self, datasets: list[str] | None = None, rows: list[str] | None = None, seeds: int | None = None
    ) -> Experiment | None:
        """The same with some of its datasets and rows, and with this number of seeds; None if nothing is left.

        Graphs of one's own among ``datasets``, by their paths, are added.
        """
        chosen = tuple(name for name in self.datasets if not datasets or name in datasets)
        chosen += tuple(name for name in dict.fromkeys(datasets or ()) if name not in self.datasets and is_own_graph(name))
        left = tuple(row for row in self.rows if not rows or row.name in rows)
        if not chosen or not left:
            return None
        base = self.base if any(row.name == self.base for row in left) else None
        if seeds is None:
            return replace(self, datasets=chosen, rows=left, base=base)
        check_whole("seeds", seeds, at_least=1, at_most=MOST_SEEDS)
        left = tuple(replace(row, seeds=1 if row.seeds == 1 else None) for row in left)
        return replace(self, datasets=chosen, rows=left, base=base, seeds=seeds, published_seeds=self.in_paper)


def is_own_graph(dataset: str) -> bool:
    """Whether it is the file or folder of a graph, and not the name of one."""
    return dataset not in DATASETS and (bool(Path(dataset).suffix) or Path(dataset).exists())


def check_form(holds: bool, name: str, wanted: str, found: object) -> None:
    if not holds:
        shown = repr(found)
        raise SettingError(f"{name} must be {wanted}, found {shown if len(shown) <= 60 else shown[:57] + '...'}.")


def is_table_of(value: object, kind: type) -> bool:
    return isinstance(value, Mapping) and all(isinstance(entry, kind) for entry in value.values())
