"""Run what experiments need and the store lacks."""

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
from graphkin.execution import as_asked
from graphkin.experiments.definition import Experiment, is_own_graph
from graphkin.experiments.execute import Checkpoints, Failure, Learned, execute, learn, scored_outcome
from graphkin.experiments.jobs import IN_A_ROW, Job, jobs_of, runs_in
from graphkin.experiments.outcomes import Outcome
from graphkin.experiments.store import Store
from graphkin.experiments.trials import Trial
from graphkin.graphs.catalogue import DATASETS, data_roots
from graphkin.graphs.graph import Graph
from graphkin.graphs.readers import open_graph
from graphkin.support.launch import LostError
from graphkin.support.progress import Style
from graphkin.training.device import device_named

WAIT_SECONDS = 2


class Watch(Protocol):
    """Receives the progress of a reproduction."""

    def begin(self, jobs: list[Job], finished: int) -> None: ...
    def epochs(self, job: Job) -> Style: ...
    def done(self, job: Job, outcome: Outcome) -> None: ...
    def failed(self, failure: Failure) -> None: ...


def open_graphs(
    experiments: list[Experiment], data_root: Path | None, must_have: list[str] | None = None
) -> tuple[dict[str, Graph], dict[str, str]]:
    """All graphs that the experiments need, and why some datasets are missing.

    Own graphs are looked for here and in the data roots. A missing one is an error, and so is a dataset in ``must_have``.
    """
    graphs: dict[str, Graph] = {}
    missing: dict[str, str] = {}
    for name in dict.fromkeys(name for experiment in experiments for name in experiment.datasets):
        try:
            graphs[name] = open_graph(_place(name, data_root), data_root=data_root)
        except InputError as error:
            if name not in DATASETS or (must_have and name in must_have):
                raise
            missing[name] = str(error)
    return graphs, missing


def _place(name: str, data_root: Path | None) -> str:
    roots = data_roots(data_root) if is_own_graph(name) and not Path(name).exists() else ()
    return next((str(root / name) for root in roots if (root / name).exists()), name)


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
    """Run everything that is neither finished nor claimed by another process, until all of it is finished.

    On a CPU, ``jobs`` processes of joblib's current backend train and score (default 1). On a GPU this process trains, and
    ``jobs`` others score what it trained (default: a process for each core but two). After ``seconds`` no run is started.
    With ``checkpoint_every``, a run that is killed resumes from its last checkpoint, in a folder beside the store.

    A run that fails, because its loss diverges or its split is impossible, does not stop the others: failures are returned.
    """
    where = device_named(device)

    def together(trial: Trial) -> int:
        if where.type == "cpu":
            return 1
        if trial.method is None:
            return IN_A_ROW
        return max(as_asked(graphs[trial.graph], trial.method, where).together, IN_A_ROW)

    end = None if seconds is None else time.monotonic() + seconds
    todo = jobs_of(experiments, graphs, store.finished(), together, epochs=epochs)
    everything = jobs_of(experiments, graphs, set(), epochs=epochs)
    watch.begin(todo, runs_in(everything) - runs_in(todo))
    run = _on_gpu if where.type == "cuda" else _on_cpu
    checkpoints = None if checkpoint_every is None else Checkpoints(store.path.with_suffix(".checkpoints"), checkpoint_every)
    failures: list[Failure] = []
    if checkpoints is not None:
        checkpoints.remove(store.finished())
    with store.claims_renewed():
        while todo and (end is None or time.monotonic() < end):
            before = len(store.finished()) + len(failures)
            for job, found in run(_claimed(todo, store, end), graphs, str(where), jobs, watch, checkpoints):
                if isinstance(found, Failure):
                    failures.append(found)
                    watch.failed(found)
                    continue
                store.add(found, job.trial.description)
                if checkpoints is not None:
                    checkpoints.remove({(found.trial, found.seed)})
                watch.done(job, found)
            settled = store.finished() | {(failure.job.trial.key, seed) for failure in failures for seed in failure.job.seeds}
            todo = jobs_of(experiments, graphs, settled, together, epochs=epochs)
            if todo and len(store.finished()) + len(failures) == before:
                time.sleep(WAIT_SECONDS)  # other processes have claimed the rest
    return failures


def runs_left(experiments: list[Experiment], store: Store, graphs: dict[str, Graph], *, epochs: int | None = None) -> int:
    return runs_in(jobs_of(experiments, graphs, store.finished(), epochs=epochs))


def _claimed(todo: list[Job], store: Store, end: float | None) -> Iterator[Job]:
    for job in todo:
        if end is not None and time.monotonic() > end:
            return
        seeds = store.claim(job.trial.key, job.seeds)
        if seeds:
            yield replace(job, seeds=seeds)


def _on_cpu(
    claimed: Iterator[Job],
    graphs: dict[str, Graph],
    device: str,
    jobs: int | None,
    watch: Watch,
    checkpoints: Checkpoints | None,
) -> Iterator[tuple[Job, Outcome | Failure]]:
    workers = jobs or 1
    calls = (
        joblib.delayed(_one)(job, graphs[job.trial.graph], device, watch.epochs(job) if workers == 1 else "none", checkpoints)
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
            "a training process was killed, perhaps because memory ran out; "
            "finished runs are saved, and the same command resumes"
        ) from error


def _in_rounds(parallel: joblib.Parallel, calls: Iterator[Any], size: int) -> Iterator[tuple[Job, list[Outcome | Failure]]]:
    """For backends that return results only when all are ready, as Ray's does: one call for each process at a time."""
    with parallel:
        while some := list(itertools.islice(calls, size)):
            yield from parallel(some)


def _one(
    job: Job, graph: Graph, device: str, progress: Style, checkpoints: Checkpoints | None
) -> tuple[Job, list[Outcome | Failure]]:
    return job, execute(job, graph, device, progress, checkpoints)


def _on_gpu(
    claimed: Iterator[Job],
    graphs: dict[str, Graph],
    device: str,
    jobs: int | None,
    watch: Watch,
    checkpoints: Checkpoints | None,
) -> Iterator[tuple[Job, Outcome | Failure]]:
    """This process trains, and others score a few runs behind it, so that the GPU stays busy."""
    workers = jobs or max((os.cpu_count() or 1) - 2, 1)
    waiting: dict[Future[Any], tuple[Job, Learned]] = {}

    def scored(most: int) -> Iterator[tuple[Job, Outcome | Failure]]:
        """Runs whose scores are ready; with more than ``most`` waiting, it waits for the next one."""
        while any(future.done() for future in waiting) or len(waiting) > most:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                job, learned = waiting.pop(future)
                yield job, scored_outcome(job, learned, future.result)

    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_begin_scoring) as scorers:
        for job in claimed:
            for learned in learn(job, graphs[job.trial.graph], device, watch.epochs(job), checkpoints):
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
    """If the process that started this one is killed, even before this one begins, end too."""
    started_by, parent = parent_process(), os.getppid()
    if started_by is None or started_by.pid is None or os.name == "nt":
        return
    starter = started_by.pid

    def watch() -> None:
        while os.getppid() == parent and psutil.pid_exists(starter):
            time.sleep(WAIT_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
