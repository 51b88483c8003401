"""Run what an experiment needs and the store does not have yet."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, Protocol

import joblib
import psutil
import torch

from graphkin.errors import InputError
from graphkin.experiments import Experiment
from graphkin.experiments.execute import Failure, Keep, Learned, execute, learn, scored_outcome
from graphkin.experiments.plan import IN_A_ROW, Job, Task, jobs_of
from graphkin.experiments.store import Outcome, Store
from graphkin.graphs.datasets import DATASETS
from graphkin.graphs.graph import Graph
from graphkin.graphs.readers import open_graph
from graphkin.support.parallel import LostError
from graphkin.support.progress import Style
from graphkin.training.fit import TOGETHER, device_named, small_steps

WAIT_SECONDS = 2


class Watch(Protocol):
    """Who is told how a reproduction goes."""

    def plan(self, jobs: list[Job], finished: int) -> None: ...
    def epochs(self, job: Job) -> Style: ...
    def done(self, job: Job, outcome: Outcome) -> None: ...
    def failed(self, failure: Failure) -> None: ...


def open_graphs(
    experiments: list[Experiment], data_root: Path | None, must_have: list[str] | None = None
) -> tuple[dict[str, Graph], dict[str, str]]:
    """All graphs that the experiments need, and why some datasets are missing.

    An own graph that is missing is an error, and so is a dataset in ``must_have``.
    """
    graphs: dict[str, Graph] = {}
    missing: dict[str, str] = {}
    for name in dict.fromkeys(name for experiment in experiments for name in experiment.datasets):
        try:
            graphs[name] = open_graph(name, data_root=data_root)
        except InputError as error:
            if name not in DATASETS or (must_have and name in must_have):
                raise
            missing[name] = str(error)
    return graphs, missing


def reproduce(
    experiments: list[Experiment],
    store: Store,
    graphs: dict[str, Graph],
    watch: Watch,
    *,
    epochs: int | None = None,
    device: str = "auto",
    jobs: int | None = None,
    seconds: float | None = None,
    checkpoint_every: int | None = None,
) -> list[Failure]:
    """Do all runs that are neither finished nor being done by another process, until they are all finished.

    On a CPU, ``jobs`` processes of joblib's current backend train and score (default 1). On a GPU this process trains, and
    ``jobs`` others score what it trained (default: a process for each core but two). After ``seconds`` no run is started.
    With ``checkpoint_every``, a run that is killed goes on from its last checkpoint, in a folder beside the store.

    A run that cannot be done, because its loss diverges or its split is impossible, ends no other: it is returned.
    """
    where = device_named(device)

    def together(task: Task) -> int:
        if where.type == "cpu":
            return 1
        small = task.method is not None and small_steps(graphs[task.graph], task.method)
        return TOGETHER if small else IN_A_ROW

    end = None if seconds is None else time.monotonic() + seconds
    todo = jobs_of(experiments, graphs, store.finished(), together, epochs=epochs)
    everything = jobs_of(experiments, graphs, set(), epochs=epochs)
    watch.plan(todo, _runs(everything) - _runs(todo))
    run = _on_gpu if where.type == "cuda" else _on_cpu
    keep = None if checkpoint_every is None else Keep(store.path.with_suffix(".checkpoints"), checkpoint_every)
    failures: list[Failure] = []
    if keep is not None:
        keep.remove(store.finished())
    with store.claims_renewed():
        while todo and (end is None or time.monotonic() < end):
            before = len(store.finished()) + len(failures)
            for job, found in run(_claimed(todo, store, end), graphs, str(where), jobs, watch, keep):
                if isinstance(found, Failure):
                    failures.append(found)
                    watch.failed(found)
                    continue
                store.add(found, job.task.description)
                if keep is not None:
                    keep.remove({(found.task, found.seed)})
                watch.done(job, found)
            settled = store.finished() | {(failure.job.task.key, seed) for failure in failures for seed in failure.job.seeds}
            todo = jobs_of(experiments, graphs, settled, together, epochs=epochs)
            if todo and len(store.finished()) + len(failures) == before:
                time.sleep(WAIT_SECONDS)  # others are at the rest
    return failures


def runs_left(experiments: list[Experiment], store: Store, graphs: dict[str, Graph], *, epochs: int | None = None) -> int:
    return _runs(jobs_of(experiments, graphs, store.finished(), epochs=epochs))


def _runs(jobs: list[Job]) -> int:
    return sum(len(job.seeds) for job in jobs)


def _claimed(todo: list[Job], store: Store, end: float | None) -> Iterator[Job]:
    for job in todo:
        if end is not None and time.monotonic() > end:
            return
        seeds = store.claim(job.task.key, job.seeds)
        if seeds:
            yield replace(job, seeds=seeds)


def _on_cpu(
    claimed: Iterator[Job], graphs: dict[str, Graph], device: str, jobs: int | None, watch: Watch, keep: Keep | None
) -> Iterator[tuple[Job, Outcome | Failure]]:
    workers = jobs or 1
    calls = (
        joblib.delayed(_one)(job, graphs[job.task.graph], device, watch.epochs(job) if workers == 1 else "none", keep)
        for job in claimed
    )
    options = {"n_jobs": workers, "pre_dispatch": workers, "batch_size": 1, "initializer": _end_with_parent}
    backend, _ = joblib.parallel.get_active_backend()
    if backend.supports_return_generator:
        done = joblib.Parallel(return_as="generator_unordered", **options)(calls)
    else:
        done = _in_rounds(joblib.Parallel(**options), calls, workers)
    try:
        for job, results in done:
            for found in results:
                yield job, found
    except BrokenExecutor as error:
        raise LostError(
            "a process that trained was killed, perhaps for lack of memory; finished runs are kept, the same command goes on"
        ) from error


def _in_rounds(parallel: joblib.Parallel, calls: Iterator[Any], size: int) -> Iterator[tuple[Job, list[Outcome | Failure]]]:
    """For backends that give results only when all are ready, as Ray's does: a call for each process at a time."""
    with parallel:
        while some := list(itertools.islice(calls, size)):
            yield from parallel(some)


def _one(job: Job, graph: Graph, device: str, progress: Style, keep: Keep | None) -> tuple[Job, list[Outcome | Failure]]:
    return job, execute(job, graph, device, progress, keep)


def _on_gpu(
    claimed: Iterator[Job], graphs: dict[str, Graph], device: str, jobs: int | None, watch: Watch, keep: Keep | None
) -> Iterator[tuple[Job, Outcome | Failure]]:
    """Training keeps the GPU busy while other processes score, a few runs behind."""
    workers = jobs or max((os.cpu_count() or 1) - 2, 1)
    waiting: dict[Future[Any], tuple[Job, Learned]] = {}

    def scored(most: int) -> Iterator[tuple[Job, Outcome | Failure]]:
        """What is ready; and, with more than ``most`` runs waiting, what comes next."""
        while any(future.done() for future in waiting) or len(waiting) > most:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                job, learned = waiting.pop(future)
                yield job, scored_outcome(job, learned, future.result)

    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_begin_scoring) as scorers:
        for job in claimed:
            for learned in learn(job, graphs[job.task.graph], device, watch.epochs(job), keep):
                if isinstance(learned, Failure):
                    yield job, learned
                    continue
                waiting[scorers.submit(learned.score)] = job, learned
                yield from scored(4 * workers)
        yield from scored(0)


def _begin_scoring() -> None:
    torch.set_num_threads(1)
    _end_with_parent()


def _end_with_parent() -> None:
    """A process that others work for may be killed, also before they begin; they would go on for nobody."""
    started_by, parent = parent_process(), os.getppid()
    if started_by is None or started_by.pid is None or os.name == "nt":
        return
    starter = started_by.pid

    def watch() -> None:
        while os.getppid() == parent and psutil.pid_exists(starter):
            time.sleep(WAIT_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
