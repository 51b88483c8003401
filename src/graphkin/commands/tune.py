"""``graphkin tune``: search, keep every trial, and end with settings for ``graphkin fit``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from graphkin.commands.display import tuning_table
from graphkin.commands.options.tune import Tune
from graphkin.commands.output import console, print_json, say
from graphkin.errors import check_installed
from graphkin.graphs.graph import Graph
from graphkin.graphs.readers import open_graph
from graphkin.report.tuning import tuning_page
from graphkin.support.environment import commit, environment
from graphkin.support.files import write_whole
from graphkin.support.signals import status
from graphkin.training.plan import resolve
from graphkin.tuning.outcome import COMPLETE, SETTINGS_FILE, Tried, Tuned, shown_setting
from graphkin.tuning.tune import tune

PAGE = "tune.html"


def run(options: Tune) -> None:
    check_installed("tune", "optuna")
    graph = open_graph(options.graph, **options.reading())
    folder = options.out or default_folder(graph, resolve(options.method, graph, options.preset).name)
    tuned = tune(graph, options.method, out=folder, report=None if options.quiet else tell, **options.how())
    tuned.write(folder)
    command = fit_command(options, folder)
    page = tuning_page(tuned, {**environment(), "commit": commit()}, command)
    write_whole(folder / PAGE, lambda file: file.write_text(page, encoding="utf-8"))
    if options.as_json:
        print_json({"out": str(folder), "command": command, **tuned.as_dict()})
    else:
        show(tuned, folder, command)
    if tuned.interrupted:
        raise typer.Exit(status())


def default_folder(graph: Graph, method: str) -> Path:
    name = f"tune-{graph.name}-{method}".replace("+", "plus").replace("(", "-").replace(")", "")
    return Path("runs") / name


def tell(tried: Sequence[Tried]) -> None:
    """A line about the last trial, on standard error."""
    one, scores = tried[-1], [other.score for other in tried if other.state == COMPLETE and other.score is not None]
    score = "" if one.score is None else f" {one.score:.2f} %"
    best = f", best {max(scores):.2f} %" if scores else ""
    what = "the settings without a search" if one.defaults else settings_line(one)
    why = f" ({one.failure})" if one.failure else ""
    print(f"trial {one.number}: {one.state}{score}{best}, {one.seconds:.1f} s: {what}{why}", file=sys.stderr, flush=True)


def settings_line(one: Tried) -> str:
    return " ".join(f"{name}={rounded(value)}" for name, value in one.settings.items())


def rounded(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(rounded(entry) for entry in value)
    return f"{value:.3g}" if isinstance(value, float) else shown_setting(value)


def fit_command(options: Tune, folder: Path) -> str:
    """The command line that trains with what was found, on the same graph, read in the same way."""
    reading = {
        "--nodes": options.nodes,
        "--label": None if options.label == "label" else options.label,
        "--source": options.source_column,
        "--target": options.target_column,
        "--weight": options.weight_column,
        "--id": options.id_column,
        "--features": options.features,
        "--data-root": options.data_root,
    }
    parts = ["graphkin", "fit", options.graph, "--preset", str(folder / SETTINGS_FILE)]
    parts += [part for name, value in reading.items() if value is not None for part in (name, str(value))]
    parts += [part for name in options.ignore or [] for part in ("--ignore", name)]
    parts += [part for kind in options.columns or [] for part in ("--columns", kind)]
    return shlex.join([*parts, "--bipartite"] if options.bipartite else parts)


def show(tuned: Tuned, folder: Path, command: str) -> None:
    counts = ", ".join(f"{count} {state}" for state, count in tuned.counts().items() if count)
    say(f"{tuned.method.name} on {tuned.graph}: {counts}; {tuned.measure}")
    console.print(tuning_table(tuned, rounded))
    if tuned.importance:
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in list(tuned.importance.items())[:5])
        say(f"what mattered: {shares}")
    for one in tuned.tried:
        if one.failure:
            say(f"trial {one.number} failed: {one.failure}", style="yellow")
    say(f"wrote {folder / SETTINGS_FILE}, trials.csv, {PAGE}")
    say(command)
    if tuned.interrupted:
        say("run the same command again to resume")
