"""One job: train its seeds, score what they learned, give an outcome for each."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from graphkin.errors import InputError
from graphkin.evaluation.baselines import baseline
from graphkin.evaluation.free import BEST_FREE, FREE
from graphkin.evaluation.own_classifier import own_accuracy
from graphkin.evaluation.split_sources import public_splits
from graphkin.experiments.jobs import Job
from graphkin.experiments.outcomes import Outcome
from graphkin.experiments.scoring import Measured, score, score_best_free, score_free
from graphkin.experiments.trials import Trial, similarity_of
from graphkin.graphs.graph import Graph
from graphkin.graphs.splits import few_labels
from graphkin.methods import Method
from graphkin.objectives.weighting import node_similarity
from graphkin.similarity import NodeSimilarity
from graphkin.support.environment import commit, environment
from graphkin.support.memory import peak_memory
from graphkin.support.progress import Style
from graphkin.training.fitted import Fitted
from graphkin.training.plan import Plan, plan
from graphkin.training.prepared import Prepared

CURVE_POINTS = 32


@dataclass(frozen=True)
class Learned:
    """A run before it is scored."""

    trial: Trial
    seed: int
    score: Callable[[], Measured]
    losses: tuple[float, ...] = ()
    seconds: float = 0.0
    kernel: str | None = None
    peak_bytes: int | None = None


@dataclass(frozen=True)
class Checkpoints:
    """Where checkpoints of runs go, and how often."""

    folder: Path
    every: int

    def path(self, trial: Trial, seed: int) -> Path:
        return self.folder / f"{trial.key}-{seed}"

    def remove(self, finished: set[tuple[str, int]]) -> None:
        """Delete the checkpoints of finished runs, and files that a killed process was writing for them."""
        names = {f"{key}-{seed}" for key, seed in finished}
        for path in self.folder.glob("*"):
            if path.name.removeprefix(".").split(".")[0] in names:
                path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Failure:
    """Seeds of a job that cannot be run, and why."""

    job: Job
    reason: str


def execute(
    job: Job, graph: Graph, device: str = "cpu", progress: Style = "none", checkpoints: Checkpoints | None = None
) -> list[Outcome | Failure]:
    return [
        learned if isinstance(learned, Failure) else scored_outcome(job, learned, learned.score)
        for learned in learn(job, graph, device, progress, checkpoints)
    ]


def scored_outcome(job: Job, learned: Learned, score: Callable[[], Measured]) -> Outcome | Failure:
    try:
        return outcome(learned, score())
    except InputError as error:
        return Failure(replace(job, seeds=(learned.seed,)), str(error))


def learn(
    job: Job, graph: Graph, device: str = "cpu", progress: Style = "none", checkpoints: Checkpoints | None = None
) -> Iterator[Learned | Failure]:
    """Train the seeds of a job; scoring them can be left to another process."""
    if job.trial.protocol.hold_out is None:
        yield from _learned(job, graph, device, progress, checkpoints)
        return
    for seed in job.seeds:
        alone = replace(job, seeds=(seed,))
        try:
            seen = job.trial.protocol.trained_on(graph, seed)
        except InputError as error:
            yield Failure(alone, str(error))
            continue
        yield from _learned(alone, seen, device, progress, checkpoints)


def _learned(
    job: Job, graph: Graph, device: str, progress: Style, checkpoints: Checkpoints | None
) -> Iterator[Learned | Failure]:
    """Seeds that see the same graph."""
    trial = job.trial
    if trial.baseline is not None:
        for seed in job.seeds:
            yield Learned(trial, seed, _baseline_scoring(trial, graph, seed))
        return
    assert trial.method is not None
    try:
        prepared = prepared_once(graph, trial.method, device)
    except InputError as error:
        yield Failure(job, str(error))
        return
    for group in prepared.groups(job.seeds):
        yield from _trained(prepared, replace(job, seeds=tuple(group)), graph, progress, checkpoints)


def _trained(
    prepared: Prepared, job: Job, graph: Graph, progress: Style, checkpoints: Checkpoints | None
) -> Iterator[Learned | Failure]:
    """Seeds that are trained side by side fail together; then each is tried alone."""
    trial = job.trial
    try:
        graphs = [_with_labels(trial, prepared.plan.graph, seed) for seed in job.seeds]
        written = []
        if checkpoints is not None:
            checkpoints.folder.mkdir(parents=True, exist_ok=True)
            written = [
                prepared.plan.checkpoint(checkpoints.path(trial, seed), checkpoints.every, seed, its_graph)
                for seed, its_graph in zip(job.seeds, graphs, strict=True)
            ]
        with peak_memory(prepared.plan.device, every=0.05) as peak:
            trained = prepared.train(job.seeds, progress, graphs=graphs, checkpoints=written)
    except InputError as error:
        if len(job.seeds) == 1:
            yield Failure(job, str(error))
        else:
            for seed in job.seeds:
                yield from _trained(prepared, replace(job, seeds=(seed,)), graph, progress, checkpoints)
        return
    if trained.stop_wanted:
        raise KeyboardInterrupt
    for fitted in trained.fitted:
        try:
            values = _scoring(trial, prepared, fitted, graph)
        except InputError as error:
            yield Failure(replace(job, seeds=(fitted.seed,)), str(error))
            continue
        yield Learned(trial, fitted.seed, values, _thinned(fitted.losses), fitted.seconds["train"], fitted.kernel, peak[0])


def _baseline_scoring(trial: Trial, graph: Graph, seed: int) -> Callable[[], Measured]:
    """Free rows are computed where they are scored: they are many times larger than the features."""
    assert trial.baseline is not None
    if trial.baseline == BEST_FREE:
        return functools.partial(score_best_free, trial, graph, seed)
    if trial.baseline in FREE:
        return functools.partial(score_free, trial, trial.baseline, graph, seed)
    rows = baseline(trial.baseline, graph, trial.method, seed)
    return functools.partial(score, trial, rows, _for_scoring(graph), seed)


def _scoring(trial: Trial, prepared: Prepared, fitted: Fitted, graph: Graph) -> Callable[[], Measured]:
    """The call that scores a run. A classifier predicts here, so that its model stays in this process."""
    if not fitted.method.needs_labels:
        return functools.partial(score, trial, _rows(prepared.embed(fitted)), _for_scoring(graph), fitted.seed)
    (measure,) = trial.columns
    test, val = (own_accuracy(fitted, graph, part) for part in ("test", "val"))
    return functools.partial(_known, measure, test, val)


def outcome(learned: Learned, measured: Measured) -> Outcome:
    where = environment()
    where.pop("finished")
    return Outcome(
        learned.trial.key,
        learned.seed,
        measured.test,
        measured.val,
        learned.losses,
        round(learned.seconds, 3),
        learned.kernel,
        datetime.now(UTC).isoformat(timespec="seconds"),
        json.dumps({**where, "commit": commit()}),
        measured.chosen,
        learned.peak_bytes,
    )


_last_prepared: dict[Hashable, Prepared] = {}
_last_similarity: dict[Hashable, NodeSimilarity | None] = {}


def prepared_once(graph: Graph, method: Method, device: str) -> Prepared:
    """Jobs of one trial, and trials with one similarity, often follow each other in a process: the last of both is cached."""
    key = (graph.content, method, device)
    if key not in _last_prepared:
        _last_prepared.clear()
        planned = plan(graph, method, device=device, adapt=False)
        _last_prepared[key] = planned.prepare(similarity=_similarity_once(graph.content, planned))
    return _last_prepared[key]


def _similarity_once(content: str, planned: Plan) -> NodeSimilarity | None:
    if similarity_of(planned.method) is None:
        return None
    key = (content, similarity_of(planned.method), planned.device, planned.execution.stored)
    if key not in _last_similarity:
        _last_similarity.clear()
        _last_similarity[key] = node_similarity(planned.graph, planned.method, planned.execution.stored)
    return _last_similarity[key]


def _with_labels(trial: Trial, graph: Graph, seed: int) -> Graph:
    """The graph with the training nodes of a seed, for a method that is trained with few labels."""
    if trial.per_class is None or trial.method is None or not trial.method.needs_labels:
        return graph
    assert graph.y is not None and graph.train_mask is not None
    chosen = few_labels(public_splits(graph)[0], graph.y.cpu(), trial.per_class, seed).train
    mask = torch.zeros_like(graph.train_mask)
    mask[chosen.to(mask.device)] = True
    return replace(graph, train_mask=mask)


def _known(measure: str, test: float, val: float) -> Measured:
    return Measured({measure: test}, {measure: val})


def _rows(embeddings: torch.Tensor) -> np.ndarray:
    return embeddings.cpu().numpy()


def _for_scoring(graph: Graph) -> Graph:
    """What a scorer in another process needs of a graph, which does not include its features."""
    return replace(graph, x=torch.zeros(graph.num_nodes, 1), edge_index=torch.zeros(2, 0, dtype=torch.long))


def _thinned(losses: Sequence[float]) -> tuple[float, ...]:
    """At most ``CURVE_POINTS`` losses at equal distances, the first and the last included; none where nothing was trained."""
    if not losses:
        return ()
    places = np.unique(np.linspace(0, len(losses) - 1, CURVE_POINTS).round().astype(int))
    return tuple(float(f"{losses[place]:.5g}") for place in places)
