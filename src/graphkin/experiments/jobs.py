"""Which runs an experiment still needs, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from graphkin.experiments.definition import Experiment
from graphkin.experiments.trials import Trial, trials_of
from graphkin.graphs.graph import Graph

IN_A_ROW = 5


@dataclass(frozen=True)
class Job:
    """Seeds of one trial that are worth running one after the other."""

    trial: Trial
    seeds: tuple[int, ...]
    labels: tuple[str, ...] = field(default=(), compare=False)
    """the rows that ask for it"""
    nodes: int = field(default=0, compare=False)

    @property
    def cost(self) -> float:
        """Roughly how long a run takes, relative to other runs."""
        return float(max(self.trial.epochs, 1) * self.nodes**1.5)

    @property
    def title(self) -> str:
        return f"{self.row}, seed {', '.join(map(str, self.seeds))}"

    @property
    def row(self) -> str:
        count = self.trial.per_class
        labels = "" if count is None else f", {count} label{'s' * (count > 1)}"
        return f"{self.labels[0]} on {Path(self.trial.graph).name}{labels}"


def jobs_of(
    experiments: Iterable[Experiment],
    graphs: dict[str, Graph],
    finished: set[tuple[str, int]],
    together: Callable[[Trial], int] = lambda trial: 1,
    epochs: int | None = None,
) -> list[Job]:
    """All unfinished runs, each once, some seeds ``together`` in a job.

    Low seeds of all trials come before high ones, ``IN_A_ROW`` of a trial at a time. Trials with the same similarity follow
    each other, so that it is computed once.
    """
    contents = {name: graph.content for name, graph in graphs.items()}
    wanted: dict[str, tuple[Trial, set[int], list[str]]] = {}
    for experiment in experiments:
        for (row, _, _), (trial, seeds) in trials_of(experiment, contents, epochs).items():
            _, known, labels = wanted.setdefault(trial.key, (trial, set(), []))
            known.update(seeds)
            if row not in labels:
                labels.append(row)
    jobs = []
    for trial, known, labels in wanted.values():
        size = together(trial)
        ordered = sorted(known)
        for group in (ordered[first : first + size] for first in range(0, len(ordered), size)):
            left = tuple(seed for seed in group if (trial.key, seed) not in finished)
            jobs.append(Job(trial, left, tuple(labels), graphs[trial.graph].num_nodes))
    places: dict[Hashable, int] = {}

    def order(job: Job) -> tuple[int, int]:
        where = (job.trial.content, job.trial.similarity)
        return job.seeds[0] // IN_A_ROW, places.setdefault(where, len(places))

    return sorted((job for job in jobs if job.seeds), key=order)


def runs_in(jobs: Iterable[Job]) -> int:
    return sum(len(job.seeds) for job in jobs)
