"""``graphkin reproduce``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from graphkin.commands.display import experiment_table, summary_tables
from graphkin.commands.options.reproduce import Reproduce
from graphkin.commands.output import console, print_json, say
from graphkin.errors import SettingError, check_range, check_whole
from graphkin.experiments import BEYOND, FREE, KIN, PEERS, SEARCHES, Experiment, experiments_named
from graphkin.experiments import NAMES as EXPERIMENTS
from graphkin.experiments.execute import Failure
from graphkin.experiments.reproduce import open_graphs, reproduce, runs_left
from graphkin.experiments.store import Store
from graphkin.experiments.summary import Summary, summarise
from graphkin.experiments.watch import watch
from graphkin.graphs.graph import Graph
from graphkin.support import signals
from graphkin.training.device import device_named


def run(options: Reproduce) -> None:
    names = options.names or (["all"] if options.show_list else [])
    chosen = experiments_named(names, options.datasets, options.rows, options.seeds)
    if options.show_list:
        _list(options, chosen)
        return
    _check(options)
    graphs, missing = open_graphs(chosen, options.data_root, options.datasets)
    if not graphs:
        raise SettingError(f"no graph of {', '.join(names)} can be opened: {next(iter(missing.values()))}")
    skipped = [f"{name} was skipped: {reason}" for name, reason in missing.items()]
    for line in () if options.quiet else skipped:
        print(line, file=sys.stderr)
    with contextlib.closing(Store(options.store)) as store:
        failures = _reproduced(options, chosen, store, graphs)
        left = runs_left(chosen, store, graphs, epochs=options.epochs) - sum(len(one.job.seeds) for one in failures)
        contents = {name: graph.content for name, graph in graphs.items()}
        summaries = [summarise(experiment, store, options.epochs, contents) for experiment in chosen]
    if options.as_json:
        failed = {failure.job.title: failure.reason for failure in failures}
        about = {"store": str(options.store), "left": left, "missing": missing, "failed": failed}
        print_json({**about, "experiments": [summary.as_dict() for summary in summaries]})
    else:
        _show(options, summaries, skipped, left)
    if failures:
        first = failures[0]
        raise SettingError(f"{len(failures)} runs failed, the first of them {first.job.title}: {first.reason}")


def _list(options: Reproduce, chosen: list[Experiment]) -> None:
    console.print(experiment_table(chosen))
    if not options.names:
        console.print(f"also: {', '.join(KIN)} (our own method; not part of all)")
        console.print(f"also: {', '.join(PEERS)} (the leaderboard: all methods under one protocol; not part of all)")
        console.print(f"also: {', '.join(BEYOND)} (what the paper does not measure; not part of all)")
        console.print(f"also: {', '.join(FREE)} (the bar without training; not part of all)")
        console.print(f"also: {', '.join(SEARCHES)} (how our settings were chosen; not part of all)")


def _check(options: Reproduce) -> None:
    device_named(options.device)
    counts = {"epochs": options.epochs, "jobs": options.jobs, "checkpoint-every": options.checkpoint_every}
    for name, value in counts.items():
        if value is not None:
            check_whole(name, value, at_least=1)
    if options.minutes is not None:
        check_range("minutes", options.minutes, above=0)


def _reproduced(options: Reproduce, chosen: list[Experiment], store: Store, graphs: dict[str, Graph]) -> list[Failure]:
    store.check_writable()
    how: dict[str, Any] = {
        "epochs": options.epochs,
        "device": options.device,
        "jobs": options.jobs,
        "seconds": None if options.minutes is None else 60 * options.minutes,
        "checkpoint_every": options.checkpoint_every,
    }
    with _finished_runs_kept(options.store), watch(quiet=options.quiet) as watching:
        return reproduce(chosen, store, graphs, watching, **how)


@contextlib.contextmanager
def _finished_runs_kept(store: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        word = "terminated" if signals.terminated() else "interrupted"
        print(f"graphkin: {word}; finished runs are in {store}. Run the same command again to resume.", file=sys.stderr)
        raise typer.Exit(signals.status()) from None


def _show(options: Reproduce, summaries: list[Summary], skipped: list[str], left: int) -> None:
    for summary in summaries:
        for table in summary_tables(summary):
            console.print(table)
    for line in skipped:
        say(line)
    if left:
        say(f"{left} runs are left because time ran out: run the same command again to resume")
    same = [f" --experiment {name}" for name in options.names or () if name not in (*EXPERIMENTS, "all")]
    numbers = (("seeds", options.seeds), ("epochs", options.epochs))
    same += [f" --{name} {value}" for name, value in numbers if value is not None]
    say(f"finished runs are in {options.store}; graphkin report {options.store}{''.join(same)} makes a page of them")
