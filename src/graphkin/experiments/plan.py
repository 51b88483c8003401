"""An experiment as single runs, each known by the content of its graph, its settings and the version of the numbers."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from graphkin.experiments import Experiment
from graphkin.graphs.graph import Graph
from graphkin.methods.method import Method, to_json

NUMBERS = 1
"""Raised with every change that alters what a run gives; finished runs of other numbers are not used again."""

IN_A_ROW = 5


@dataclass(frozen=True)
class Task:
    """What is repeated over seeds: a method or a baseline on a graph, by a protocol."""

    graph: str
    content: str
    """of the graph"""
    protocol: str
    per_class: int | None
    """labels of a class, for few-labels"""
    baseline: str | None
    method: Method | None

    @functools.cached_property
    def description(self) -> str:
        """JSON in which two tasks are the same exactly if they give the same numbers."""
        method = None if self.method is None else to_json(self.method)
        known = {
            "graph": self.graph,
            "content": self.content,
            "protocol": self.protocol,
            "per_class": self.per_class,
            "baseline": self.baseline,
            "method": method,
            "numbers": NUMBERS,
        }
        return json.dumps(known, sort_keys=True)

    @functools.cached_property
    def key(self) -> str:
        return hashlib.sha256(self.description.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Job:
    """Runs of one task that are worth doing one after the other."""

    task: Task
    seeds: tuple[int, ...]
    labels: tuple[str, ...] = field(default=(), compare=False)
    """the rows that ask for it"""
    nodes: int = field(default=0, compare=False)

    @property
    def cost(self) -> float:
        """About how long a run takes, in units that only mean something beside those of another run."""
        method = self.task.method
        epochs = 1 if self.task.baseline is not None or method is None else method.optimiser.epochs
        return float(epochs * self.nodes**1.5)

    @property
    def title(self) -> str:
        return f"{self.row}, seed {', '.join(map(str, self.seeds))}"

    @property
    def row(self) -> str:
        count = self.task.per_class
        labels = "" if count is None else f", {count} label{'s' * (count > 1)}"
        return f"{self.labels[0]} on {Path(self.task.graph).name}{labels}"


def tasks_of(
    experiment: Experiment, contents: Mapping[str, str], epochs: int | None = None
) -> dict[tuple[str, str, str], tuple[Task, range]]:
    """The task and the seeds behind every cell (row, dataset, measure) of graphs with these contents; cells may share one."""
    found = {}
    for dataset in experiment.datasets:
        if dataset not in contents:
            continue
        for row in experiment.rows:
            method = row.chosen(dataset, epochs)
            for measure in experiment.measures:
                per_class = int(measure) if experiment.protocol == "few-labels" else None
                task = Task(dataset, contents[dataset], experiment.protocol, per_class, row.baseline, method)
                found[row.name, dataset, measure] = task, experiment.seeds_of(row, dataset)
    return found


def jobs_of(
    experiments: Iterable[Experiment],
    graphs: dict[str, Graph],
    finished: set[tuple[str, int]],
    together: Callable[[Task], int] = lambda task: 1,
    epochs: int | None = None,
) -> list[Job]:
    """All unfinished runs, each once, some seeds ``together`` in a job.

    Low seeds of all tasks come before high ones, ``IN_A_ROW`` of a task at a time, and tasks that share a similarity follow
    each other, so that it is not computed for every run anew.
    """
    contents = {name: graph.content for name, graph in graphs.items()}
    wanted: dict[str, tuple[Task, set[int], list[str]]] = {}
    for experiment in experiments:
        for (row, _, _), (task, seeds) in tasks_of(experiment, contents, epochs).items():
            _, known, labels = wanted.setdefault(task.key, (task, set(), []))
            known.update(seeds)
            if row not in labels:
                labels.append(row)
    jobs = []
    for task, known, labels in wanted.values():
        size = together(task)
        ordered = sorted(known)
        for group in (ordered[first : first + size] for first in range(0, len(ordered), size)):
            left = tuple(seed for seed in group if (task.key, seed) not in finished)
            jobs.append(Job(task, left, tuple(labels), graphs[task.graph].num_nodes))
    places: dict[Hashable, int] = {}

    def order(job: Job) -> tuple[int, int]:
        similarity = None if job.task.method is None else job.task.method.similarity
        return job.seeds[0] // IN_A_ROW, places.setdefault((job.task.content, similarity), len(places))

    return sorted((job for job in jobs if job.seeds), key=order)
