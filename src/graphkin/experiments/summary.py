"""What the runs of an experiment say: cells with mean and spread, the published ones, and how sure a difference is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from graphkin.evaluation.comparison import Difference, paired
from graphkin.experiments.definition import Experiment
from graphkin.experiments.outcomes import Outcome
from graphkin.experiments.store import Store
from graphkin.experiments.trials import Trial, trials_of


class Cost(NamedTuple):
    """Of training on one machine, the mean over runs."""

    seconds: float
    peak_bytes: float
    """NaN where it was not measured"""
    runs: int


@dataclass(frozen=True)
class Cell:
    """One measure in percent of one row on one dataset, by seed."""

    test: Mapping[int, float]
    val: Mapping[int, float]
    """on validation nodes, where the protocol has any"""
    wanted: int
    """seeds that the experiment asks for"""
    published: tuple[float, float] | None = None
    """mean and standard deviation in the paper"""
    losses: tuple[float, ...] = ()
    """the mean loss curve at equally spaced epochs"""
    epochs: int = 0
    seconds: float = 0.0
    """mean training time of a run"""
    chosen: Mapping[int, str] = field(default_factory=dict)
    """by seed, which row it is, where one was chosen"""
    costs: Mapping[str, Cost] = field(default_factory=dict)
    """by machine"""

    @property
    def count(self) -> int:
        return len(self.test)

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.test.values()))) if self.test else math.nan

    @property
    def std(self) -> float:
        """The sample standard deviation."""
        return float(np.std(list(self.test.values()), ddof=1)) if self.count > 1 else math.nan

    @property
    def val_mean(self) -> float:
        return float(np.mean(list(self.val.values()))) if self.val else math.nan

    def against_published(self, published_seeds: int) -> Difference | None:
        """Welch's test of two means with their own spreads, from the paper's summary alone."""
        if self.published is None or not self.test:
            return None
        mean, std = self.published
        if self.count < 2:
            return Difference(self.mean - mean, math.nan)
        found = stats.ttest_ind_from_stats(self.mean, self.std, self.count, mean, std, published_seeds, equal_var=False)
        return Difference(self.mean - mean, float(found.pvalue))

    def paired_with(self, base: Cell) -> Difference | None:
        """The mean difference on the seeds that both have, which share parameters, views and split; paired t-test."""
        return paired(self.test, base.test)


@dataclass(frozen=True)
class Summary:
    """An experiment with its cells, by row, dataset and measure; cells without runs are empty."""

    experiment: Experiment
    cells: Mapping[tuple[str, str, str], Cell]
    cut_to: int | None = None
    """epochs of every method, where the user chose another number than its settings; such runs are no results"""

    def cell(self, row: str, dataset: str, measure: str) -> Cell:
        return self.cells[row, dataset, measure]

    @property
    def datasets(self) -> tuple[str, ...]:
        """Those with cells: a dataset that could not be opened has none."""
        return tuple(dict.fromkeys(dataset for _, dataset, _ in self.cells))

    def gain(self, row: str, dataset: str, measure: str) -> Difference | None:
        """Against the experiment's base row."""
        base = self.experiment.base
        if base is None or row == base:
            return None
        return self.cell(row, dataset, measure).paired_with(self.cell(base, dataset, measure))

    def as_dict(self) -> dict[str, Any]:
        """All cells as plain data."""
        seeds = self.experiment.in_paper
        listed = []
        for (row, dataset, measure), cell in self.cells.items():
            published, gain = cell.against_published(seeds), self.gain(row, dataset, measure)
            listed.append(
                {
                    "row": row,
                    "dataset": dataset,
                    "measure": measure,
                    "mean": _number(cell.mean),
                    "std": _number(cell.std),
                    "seeds": cell.count,
                    "wanted": cell.wanted,
                    "published": cell.published,
                    "difference": None if published is None else [_number(part) for part in published],
                    "gain": None if gain is None else [_number(part) for part in gain],
                    "test": dict(cell.test),
                    **({"chosen": dict(cell.chosen)} if cell.chosen else {}),
                }
            )
        return {"name": self.experiment.name, "title": self.experiment.title, "base": self.experiment.base, "cells": listed}

    @property
    def runs(self) -> tuple[int, int]:
        """Finished and wanted, by cell."""
        return sum(cell.count for cell in self.cells.values()), sum(cell.wanted for cell in self.cells.values())


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return None if math.isnan(value) else value


def summarise(
    experiment: Experiment, store: Store, epochs: int | None = None, contents: Mapping[str, str] | None = None
) -> Summary:
    """The seeds that the experiment asks for, on graphs of these contents; by default those that the store saw last."""
    known = store.contents() if contents is None else contents
    by_trial: dict[str, dict[int, Outcome]] = {}
    for outcome in store.outcomes():
        by_trial.setdefault(outcome.trial, {})[outcome.seed] = outcome
    cells = {}
    for (row_name, dataset, measure), (trial, seeds) in trials_of(experiment, known, epochs).items():
        row = next(row for row in experiment.rows if row.name == row_name)
        found = [one for seed in seeds if (one := _run(trial, measure, seed, by_trial)) is not None]
        curves = [outcome.losses for outcome in found if len(outcome.losses) == len(found[0].losses) > 0]
        cells[row_name, dataset, measure] = Cell(
            test={outcome.seed: outcome.test[measure] for outcome in found},
            val={outcome.seed: outcome.val[measure] for outcome in found if measure in outcome.val},
            wanted=len(seeds),
            published=experiment.published_for(row, dataset, measure),
            losses=tuple(np.mean(curves, axis=0).tolist()) if curves else (),
            epochs=trial.epochs,
            seconds=float(np.mean([outcome.seconds for outcome in found])) if found else 0.0,
            chosen={outcome.seed: outcome.chosen[measure] for outcome in found if measure in outcome.chosen},
            costs=_costs(found),
        )
    return Summary(experiment, cells, epochs)


def _run(trial: Trial, measure: str, seed: int, known: Mapping[str, Mapping[int, Outcome]]) -> Outcome | None:
    """The run of a seed with this measure; or one by the protocol that the measure comes from, which gives the same number."""
    found = known.get(trial.key, {}).get(seed)
    if found is not None and measure in found.test:
        return found
    alone = trial.alone(measure)
    if alone is None:
        return None
    other, name = alone
    found = known.get(other.key, {}).get(seed)
    if found is None or name not in found.test:
        return None
    renamed: dict[str, Any] = {
        part: {measure: values[name]} if name in (values := getattr(found, part)) else {} for part in ("test", "val", "chosen")
    }
    return replace(found, **renamed)


def _costs(outcomes: Iterable[Outcome]) -> dict[str, Cost]:
    by_machine: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.seconds > 0:
            by_machine.setdefault(outcome.machine, []).append(outcome)
    return {
        machine: Cost(
            float(np.mean([one.seconds for one in runs])),
            float(np.mean([one.peak_bytes or math.nan for one in runs])),
            len(runs),
        )
        for machine, runs in by_machine.items()
    }
