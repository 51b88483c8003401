"""``graphkin fit``: read the graph, decide how to train, train, write, score."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import typer

from graphkin.commands.display import print_fit
from graphkin.commands.options.fit import Fit
from graphkin.commands.output import print_json, say
from graphkin.commands.runs import (
    CHECKPOINT,
    default_folder,
    links_of,
    prepare_folder,
    remove_own_pageranks,
    remove_unfinished,
    scores_of,
    write_run,
)
from graphkin.commands.source import source_of
from graphkin.errors import check_choice, check_range, check_whole
from graphkin.evaluation.evaluate import MOST_SPLITS
from graphkin.graphs.graph import Graph
from graphkin.graphs.held_out import hold_out_edges
from graphkin.graphs.readers import open_graph
from graphkin.methods import Method
from graphkin.support.launch import LostError
from graphkin.support.parallel import Peers, joined
from graphkin.support.signals import status, terminated
from graphkin.training.device import device_named
from graphkin.training.embeddings import FORMATS
from graphkin.training.fitted import Fitted
from graphkin.training.plan import Plan, plan, resolve
from graphkin.training.usable import check_usable

MOST_HELD_OUT = 0.9


@dataclass(frozen=True)
class Request:
    """What the options ask for, checked."""

    graph: Graph
    method: Method
    device: torch.device


def run(options: Fit) -> None:
    with joined() as among:
        with among.same_fate():
            request = checked(options, among)
        among.check_same(
            (request.graph.content, request.device.type),
            "all processes must have the same graph and the same kind of device; this one differs.",
        )
        planned = plan(request.graph, request.method, device=options.device, memory=options.memory)
        folder = among.from_first(lambda: results_folder(options, request))
        fitted, blocks = trained(options, planned, folder, among)
        if among.first:
            record = written(options, request.graph, fitted, blocks, folder)
            show(options, request.graph, fitted, record, folder)
        else:
            deque(blocks, maxlen=0)
    if fitted.interrupted and among.first:  # a process that failed early would have torchrun end the one that writes
        raise typer.Exit(status())


def checked(options: Fit, among: Peers) -> Request:
    graph = among.one_at_first(lambda: open_graph(options.graph, **options.reading()))
    method = resolve(options.method, graph, options.preset).configure(**options.chosen_settings())
    check_usable(graph, method)
    check_whole("splits", options.splits, at_least=1, at_most=MOST_SPLITS)
    check_whole("seed", options.seed, at_least=0)
    check_choice("format", options.kind, FORMATS)
    if options.hold_out_edges is not None:
        check_range("hold-out-edges", options.hold_out_edges, above=0, at_most=MOST_HELD_OUT)
        graph = hold_out_edges(graph, options.hold_out_edges, seed=options.seed)
    if options.checkpoint_every is not None:
        check_whole("checkpoint-every", options.checkpoint_every, at_least=1)
    return Request(graph, method, device_named(options.device))


def results_folder(options: Fit, request: Request) -> Path:
    resumes = options.resumes and not options.overwrite
    folder = options.out or default_folder(request.graph, request.method.name, options.seed, resume=resumes)
    return prepare_folder(folder, overwrite=options.overwrite, resume=options.resumes)


def trained(options: Fit, planned: Plan, folder: Path, among: Peers) -> tuple[Fitted, Iterator[torch.Tensor]]:
    """Each process of several keeps its own part of the PageRanks in the folder, and removes it."""
    if options.overwrite and not among.first:
        remove_own_pageranks(folder)
    progress = "visible" if among.first and not options.quiet else "none"
    if progress != "none":
        print("\n".join(planned.lines()), file=sys.stderr)
    checkpoint = folder / CHECKPOINT if options.resumes else None
    try:
        fitted, blocks = planned.fit_and_embed(options.seed, progress, checkpoint, options.checkpoint_every or 1)
    except LostError as error:
        advice = "run the same command again to resume" if options.resumes else "with --checkpoint-every it could be resumed"
        raise LostError(f"{error}; {advice} from the last checkpoint") from error
    if not among.first and not fitted.interrupted:
        remove_own_pageranks(folder)
    return fitted, blocks


def written(options: Fit, graph: Graph, fitted: Fitted, blocks: Iterator[torch.Tensor], folder: Path) -> dict[str, Any]:
    """Write the run, then score it; SIGTERM leaves no time for scores."""

    def score(rows: torch.Tensor) -> dict[str, Any]:
        return scores_of(fitted, graph, rows, options.splits, options.seed, options.baselines)

    def links(rows: torch.Tensor) -> dict[str, Any]:
        return links_of(fitted, graph, rows, options.baselines)

    source = source_of(options.graph, options)
    held_out = None if graph.held_out is None else links
    try:
        record = write_run(folder, fitted, graph, None if terminated() else score, options.kind, source, held_out, blocks)
    except BaseException:
        if (folder / "run.json").exists():
            print(f"graphkin: not scored; model and embeddings are in {folder}.", file=sys.stderr)
        raise
    if options.resumes and not fitted.interrupted:
        remove_unfinished(folder)
    return record


def show(options: Fit, graph: Graph, fitted: Fitted, record: dict[str, Any], folder: Path) -> None:
    if options.as_json:
        print_json({"out": str(folder), **record})
        return
    print_fit(graph, fitted, record, folder / f"embeddings.{options.kind}")
    if options.resumes and fitted.interrupted:
        say("run the same command again to resume")
