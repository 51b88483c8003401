"""``graphkin report``."""

from __future__ import annotations

import contextlib
import sys

from graphkin.commands.options.report import Report
from graphkin.commands.output import say
from graphkin.commands.source import graph_of_run, graph_record
from graphkin.errors import OutputError, SettingError, check_choice
from graphkin.experiments import experiments_named
from graphkin.experiments.board import board_of
from graphkin.experiments.store import Store
from graphkin.experiments.summary import Summary, summarise
from graphkin.experiments.trials import trials_of
from graphkin.report.page import fit_page, reproduction_page
from graphkin.support.files import check_writable, write_whole
from graphkin.uses.layout import LAYOUTS


def run(options: Report) -> None:
    page = options.page
    check_choice("layout", options.layout, LAYOUTS)
    if page.exists() and not options.overwrite:
        raise OutputError(f"{page} exists already: choose another --out, or add --overwrite.")
    check_writable(page.parent)
    if options.source.is_dir():
        text, note = _of_folder(options), None
    elif options.graph is not None:
        raise SettingError(
            f"a graph can be given only with a folder that fit wrote; {options.source} is a store, found {options.graph!r}."
        )
    else:
        text, note = _of_store(options)
    write_whole(page, lambda file: file.write_text(text, encoding="utf-8"))
    say(f"{page}: {len(text.encode()) / 2**20:.2f} MiB, opens in any browser")
    if note is not None:
        say(note)


def _of_folder(options: Report) -> str:
    graph_record(options.source)
    graph = graph_of_run(options.source, options.graph, options)
    return fit_page(
        options.source, graph, layout=options.layout, command=options.command, say=lambda line: print(line, file=sys.stderr)
    )


def _of_store(options: Report) -> tuple[str, str | None]:
    """The page, and a note on runs that are not on it."""
    with contextlib.closing(Store(options.source, read_only=True)) as store:
        chosen = experiments_named(options.experiments or ["all"], seeds=options.seeds)
        summaries = [summarise(experiment, store, options.epochs) for experiment in chosen]
        if not options.experiments:
            summaries = [summary for summary in summaries if summary.runs[0]]
        if not summaries:
            raise OutputError(
                f"{options.source} has no runs of the paper's experiments; choose others with --experiment and --epochs."
            )
        finished = store.finished()
        left_out = len(finished - _shown(summaries, store.contents()))
        note = (
            f"{left_out:,} of {len(finished):,} runs are not on it: they belong to other experiments, seeds or epochs, which "
            "--experiment, --seeds and --epochs choose."
        )
        board = board_of(chosen, store, options.epochs)
        return reproduction_page(summaries, store.environments(), options.command, board), note if left_out else None


def _shown(summaries: list[Summary], contents: dict[str, str]) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    for summary in summaries:
        for (_, _, measure), (trial, seeds) in trials_of(summary.experiment, contents, summary.cut_to).items():
            alone = trial.alone(measure)
            keys = [trial.key] if alone is None else [trial.key, alone[0].key]
            found.update((key, seed) for key in keys for seed in seeds)
    return found
