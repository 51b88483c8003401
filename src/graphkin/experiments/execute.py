"""One job: train its seeds, score what they learned, give an outcome for each."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from graphkin.errors import InputError
from graphkin.evaluation.evaluate import evaluate, propagated_features, public_splits, raw_features, untrained
from graphkin.experiments import MEASURES
from graphkin.experiments.plan import Job, Task
from graphkin.experiments.store import Outcome
from graphkin.graphs.graph import Graph
from graphkin.graphs.splits import few_labels
from graphkin.methods.method import Method
from graphkin.similarity import NodeSimilarity
from graphkin.support.environment import commit, environment
from graphkin.support.progress import Style
from graphkin.training.fit import Prepared, check_usable, prepare
from graphkin.training.fitted import Fitted
from graphkin.training.tasks import similarity_for

CURVE_POINTS = 32
Scores = tuple[dict[str, float], dict[str, float]]
"""test and validation accuracies in percent, by measure"""


@dataclass(frozen=True)
class Learned:
    """A run before it is scored."""

    task: Task
    seed: int
    score: Callable[[], Scores]
    losses: tuple[float, ...] = ()
    seconds: float = 0.0
    kernel: str | None = None


@dataclass(frozen=True)
class Keep:
    """Where checkpoints of runs go, and how often."""

    folder: Path
    every: int

    def path(self, task: Task, seed: int) -> Path:
        return self.folder / f"{task.key}-{seed}"

    def remove(self, finished: set[tuple[str, int]]) -> None:
        """What is left of finished runs: their checkpoints, and files that a killed process was writing."""
        names = {f"{key}-{seed}" for key, seed in finished}
        for path in self.folder.glob("*"):
            if path.name.removeprefix(".").split(".")[0] in names:
                path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Failure:
    """Seeds of a job that cannot be done, and why."""

    job: Job
    reason: str


def execute(
    job: Job, graph: Graph, device: str = "cpu", progress: Style = "none", keep: Keep | None = None
) -> list[Outcome | Failure]:
    return [
        learned if isinstance(learned, Failure) else scored_outcome(job, learned, learned.score)
        for learned in learn(job, graph, device, progress, keep)
    ]


def scored_outcome(job: Job, learned: Learned, score: Callable[[], Scores]) -> Outcome | Failure:
    try:
        return outcome(learned, score())
    except InputError as error:
        return Failure(replace(job, seeds=(learned.seed,)), str(error))


def learn(
    job: Job, graph: Graph, device: str = "cpu", progress: Style = "none", keep: Keep | None = None
) -> Iterator[Learned | Failure]:
    """Train the seeds of a job; what is left is to score them, which another process can do."""
    task = job.task
    if task.baseline is not None:
        for seed in job.seeds:
            rows = _without_training(task, graph, seed)
            yield Learned(task, seed, functools.partial(score, task, rows, _for_scoring(graph), seed))
        return
    assert task.method is not None
    try:
        prepared = prepared_once(task.content, graph, task.method, device)
    except InputError as error:
        yield Failure(job, str(error))
        return
    for group in prepared.groups(job.seeds):
        yield from _trained(prepared, replace(job, seeds=tuple(group)), graph, progress, keep)


def _trained(prepared: Prepared, job: Job, graph: Graph, progress: Style, keep: Keep | None) -> Iterator[Learned | Failure]:
    """Seeds that are trained side by side fail together; then each is tried alone."""
    task = job.task
    try:
        graphs = [_with_labels(task, prepared.graph, seed) for seed in job.seeds]
        checkpoints = []
        if keep is not None:
            keep.folder.mkdir(parents=True, exist_ok=True)
            checkpoints = [
                prepared.checkpoint(keep.path(task, seed), keep.every, seed, its_graph)
                for seed, its_graph in zip(job.seeds, graphs, strict=True)
            ]
        trained = prepared.train(job.seeds, progress, graphs=graphs, checkpoints=checkpoints)
    except InputError as error:
        if len(job.seeds) == 1:
            yield Failure(job, str(error))
        else:
            for seed in job.seeds:
                yield from _trained(prepared, replace(job, seeds=(seed,)), graph, progress, keep)
        return
    if trained.stop_wanted:
        raise KeyboardInterrupt
    for fitted in trained.fitted:
        values: Callable[[], Scores]
        if fitted.method.needs_labels:
            test, val = own_accuracies(fitted, _with_labels(task, graph, fitted.seed))
            values = functools.partial(_known, _measure(task), test, val)
        else:
            values = functools.partial(score, task, _rows(fitted.embed(graph)), _for_scoring(graph), fitted.seed)
        yield Learned(task, fitted.seed, values, _thinned(fitted.losses), fitted.seconds["train"], fitted.kernel)


def score(task: Task, rows: Any, graph: Graph, seed: int) -> Scores:
    """Test and validation accuracy of rows by the task's protocol; each seed has a split of its own."""
    if task.protocol == "grace":
        measures = MEASURES["grace"]
        assert measures is not None
        shares = {measure: float(measure.removesuffix(" %")) / 100 for measure in measures}
        options: dict[str, dict[str, Any]] = {measure: {"ratio": share} for measure, share in shares.items()}
    else:
        options = {_measure(task): {} if task.per_class is None else {"per_class": task.per_class}}
    test, val = {}, {}
    several_public = task.protocol == "gca" and len(graph.public_splits) > 1
    splits: Any = [graph.public_splits[seed % len(graph.public_splits)]] if several_public else 1
    for measure, given in options.items():
        scores = evaluate(rows, graph, protocol=task.protocol, splits=splits, seed=seed, **given)
        test[measure], val[measure] = scores.test[0], scores.values["val_accuracy"][0]
    return test, val


def own_accuracies(fitted: Fitted, graph: Graph) -> tuple[float, float]:
    """Of a method that classifies itself, in percent, on test and validation nodes."""
    assert graph.y is not None and graph.test_mask is not None and graph.val_mask is not None
    right = fitted.predict(graph) == graph.y
    return tuple(100 * float(right[mask].float().mean()) for mask in (graph.test_mask, graph.val_mask))  # type: ignore[return-value]


def outcome(learned: Learned, scores: Scores) -> Outcome:
    test, val = scores
    where = environment()
    where.pop("finished")
    return Outcome(
        learned.task.key,
        learned.seed,
        test,
        val,
        learned.losses,
        round(learned.seconds, 3),
        learned.kernel,
        datetime.now(UTC).isoformat(timespec="seconds"),
        json.dumps({**where, "commit": commit()}),
    )


_last_prepared: dict[Hashable, Prepared] = {}
_last_similarity: dict[Hashable, NodeSimilarity | None] = {}


def prepared_once(content: str, graph: Graph, method: Method, device: str) -> Prepared:
    """Jobs of one task, and tasks with one similarity, often follow each other in a process: the last of both are kept."""
    key = (content, method, device)
    if key not in _last_prepared:
        _last_prepared.clear()
        check_usable(graph, method)
        similarity = _similarity_once(content, graph, method, device)
        _last_prepared[key] = prepare(graph, method, device=device, similarity=similarity, planned=False)
    return _last_prepared[key]


def _similarity_once(content: str, graph: Graph, method: Method, device: str) -> NodeSimilarity | None:
    if method.similarity is None:
        return None
    key = (content, method.similarity, device)
    if key not in _last_similarity:
        _last_similarity.clear()
        _last_similarity[key] = similarity_for(graph.to(device), method)
    return _last_similarity[key]


def _with_labels(task: Task, graph: Graph, seed: int) -> Graph:
    """The graph with the training nodes of a seed, for a method that is trained with few labels."""
    if task.per_class is None or task.method is None or not task.method.needs_labels:
        return graph
    assert graph.y is not None and graph.train_mask is not None
    chosen = few_labels(public_splits(graph)[0], graph.y.cpu(), task.per_class, seed).train
    mask = torch.zeros_like(graph.train_mask)
    mask[chosen.to(mask.device)] = True
    return replace(graph, train_mask=mask)


def _without_training(task: Task, graph: Graph, seed: int) -> Any:
    if task.baseline == "raw features":
        return raw_features(graph)
    if task.baseline == "propagated features":
        return propagated_features(graph)
    assert task.method is not None
    return untrained(graph, task.method, seed)


def _measure(task: Task) -> str:
    return "test" if task.per_class is None else str(task.per_class)


def _known(measure: str, test: float, val: float) -> Scores:
    return {measure: test}, {measure: val}


def _rows(embeddings: torch.Tensor) -> np.ndarray:
    return embeddings.cpu().numpy()


def _for_scoring(graph: Graph) -> Graph:
    """What a scorer in another process needs of a graph: not its features."""
    return replace(graph, x=torch.zeros(graph.num_nodes, 1), edge_index=torch.zeros(2, 0, dtype=torch.long))


def _thinned(losses: Sequence[float]) -> tuple[float, ...]:
    """At most ``CURVE_POINTS`` losses at equal distances, the first and the last included."""
    places = np.unique(np.linspace(0, len(losses) - 1, CURVE_POINTS).round().astype(int))
    return tuple(float(f"{losses[place]:.5g}") for place in places)
