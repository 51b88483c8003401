"""What the command line shows: tables and lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from graphkin.commands.output import console, say
from graphkin.graphs.catalogue import DATASETS
from graphkin.support.signals import terminated

if TYPE_CHECKING:
    from graphkin.bench import Row
    from graphkin.experiments import Experiment
    from graphkin.experiments.summary import Summary
    from graphkin.graphs.graph import Graph
    from graphkin.training.fitted import Fitted
    from graphkin.tuning.outcome import Tuned

BEST_TRIALS = 3


def score_table(scores: Mapping[str, Mapping[str, Any]], graph: str) -> Table:
    """``scores`` are :meth:`Scores.as_dict` of each row."""
    from graphkin.evaluation.free import named

    first = next(iter(scores.values()))
    shown = [name for name, values in first.items() if isinstance(values, list) and not name.startswith("val_")]
    count = len(first[shown[0]])
    repeats = f", {count} times" if count > 1 else ""
    table = Table("embedding", title=f"{graph}, protocol {first['protocol']}{repeats}", title_justify="left")
    for measure in shown:
        table.add_column(f"{measure}, %", justify="right")
    for row, summary in scores.items():
        name = f"{row}: {named(summary['chosen'])}" if summary.get("chosen") else row
        table.add_row(name, *(_mean_and_spread(summary, measure) for measure in shown))
    return table


def _mean_and_spread(summary: Mapping[str, Any], measure: str) -> str:
    spread = f" ± {summary[f'{measure}_std']:.2f}" if len(summary[measure]) > 1 else ""
    return f"{summary[f'{measure}_mean']:.2f}{spread}"


def print_scores(scores: Mapping[str, Any], graph: str, *, short: bool = False) -> None:
    """``scores`` as run.json has them; ``short`` leaves out the free rows of which the best is shown."""
    from graphkin.evaluation.free import BEST_FREE, FREE

    rows = {scores["of"]: scores, **scores["baselines"]}
    if short and BEST_FREE in rows:
        rows = {name: row for name, row in rows.items() if name not in FREE}
    console.print(score_table(rows, graph))
    if "advice" in scores:
        say(scores["advice"], style="yellow")


def with_notes(graph: Graph) -> str:
    """What was repaired and left out, to stand behind its counts."""
    return f" ({'; '.join(graph.notes)})" if graph.notes else ""


def print_fit(graph: Graph, fitted: Fitted, record: dict[str, Any], embeddings: Path) -> None:
    """What was done, by run.json's ``record``."""
    counts = f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {graph.num_features:,} features"
    say(f"{graph.name}: {counts}{with_notes(graph)}")
    if not fitted.losses:
        say(f"{fitted.method.name}: nothing to train, {fitted.seconds['prepare']:.1f} s")
        _print_outcome(graph, record, embeddings)
        return
    stopped = f"stopped by {'SIGTERM' if terminated() else 'Ctrl-C'} after"
    console.print(
        f"{fitted.method.name}: {stopped if fitted.interrupted else 'trained for'} {len(fitted.losses)} epochs in "
        f"{fitted.seconds['train']:.1f} s ({fitted.kernel} kernel), loss {fitted.losses[-1]:.4f}"
    )
    _print_outcome(graph, record, embeddings)


def _print_outcome(graph: Graph, record: dict[str, Any], embeddings: Path) -> None:
    from graphkin.commands.held_out import FILE as HELD_OUT_FILE

    if record["warning"] is not None:
        say(f"warning: {record['warning']}", style="yellow")
    scores = record["scores"]
    if "not_scored" not in scores:
        print_scores(scores, graph.name, short=True)
    elif "links" not in record:
        say(f"not scored: {scores['not_scored'] if graph.y is not None else 'the graph has no labels'}")
    if "links" in record:
        print_scores(record["links"], graph.name, short=True)
    ids = ["embeddings.ids.csv"] if embeddings.with_suffix(".ids.csv").exists() else []
    held_out = [] if graph.held_out is None else [HELD_OUT_FILE]
    say(f"wrote {', '.join([str(embeddings), *ids, 'model.graphkin', 'run.json', *held_out])}")
    if graph.y is None:
        say(f"next: graphkin cluster {embeddings.parent}, or graphkin map {embeddings.parent}")


def tuning_table(tuned: Tuned, shown: Callable[[Any], str]) -> Table:
    """The best trials, and the settings without a search."""
    best = tuned.finished[:BEST_TRIALS]
    default = tuned.default
    rows = [*best, *([default] if default is not None and default not in best else [])]
    table = Table("setting", title="the best trials", title_justify="left")
    table.columns[0].no_wrap = True
    for one in rows:
        table.add_column(f"trial {one.number}" + ("\nno search" if one.defaults else ""), justify="right")
    table.add_row("score, %", *("failed" if one.score is None else f"{one.score:.2f}" for one in rows), end_section=True)
    for name in dict.fromkeys(name for one in rows for name in one.settings):
        table.add_row(name, *(shown(one.settings[name]) if name in one.settings else "–" for one in rows))
    return table


def experiment_table(experiments: list[Experiment]) -> Table:
    table = Table("name", "what", "graphs", "seeds", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.columns[0].no_wrap = True
    for entry in experiments:
        table.add_row(entry.name, entry.title, ", ".join(entry.datasets), str(entry.seeds))
    return table


def summary_tables(summary: Summary) -> Iterator[Table]:
    """One table with the graphs as columns; with several measures, one table per graph with the measures as columns."""
    experiment = summary.experiment
    if len(experiment.measures) == 1:
        measure = experiment.measures[0]
        columns = [(experiment.heading(dataset), dataset, measure) for dataset in summary.datasets]
        yield _cells(summary, experiment.title, columns)
        return
    for dataset in summary.datasets:
        title = f"{experiment.title}: {experiment.heading(dataset)}" + (f", by {experiment.axis}" if experiment.axis else "")
        yield _cells(summary, title, [(measure, dataset, measure) for measure in experiment.measures])


def _cells(summary: Summary, title: str, columns: list[tuple[str, str, str]]) -> Table:
    quantities = {summary.experiment.quantity(measure) for _, _, measure in columns}
    what = f"{quantities.pop()}, %" if len(quantities) == 1 else "in percent"
    table = Table(what, title=title, title_justify="left", show_lines=True)
    for heading, _, _ in columns:
        table.add_column(heading, justify="right")
    for row in summary.experiment.rows:
        table.add_row(row.name, *(_cell(summary, row.name, dataset, measure) for _, dataset, measure in columns))
    return table


def _cell(summary: Summary, row: str, dataset: str, measure: str) -> str:
    cell = summary.cell(row, dataset, measure)
    if not cell.count:
        return "–"
    lines = [f"{cell.mean:.2f}" + (f" ± {cell.std:.2f}" if cell.count > 1 else "")]
    if cell.count < cell.wanted:
        lines[0] += f" ({cell.count} of {cell.wanted})"
    gain = summary.gain(row, dataset, measure)
    if gain is not None:
        lines.append(f"{gain.points:+.2f}" + ("" if math.isnan(gain.p_value) else f", p {gain.p_value:.2g}"))
    if cell.published is not None:
        lines.append(f"paper {cell.published[0]:.2f} ± {cell.published[1]:.2f}")
    return "\n".join(lines)


def bench_line(row: Row, before: list[Row]) -> str:
    """A row of ``graphkin bench``, with its speed relative to the first that was timed on the same problem."""
    what = ", ".join(str(value) if isinstance(value, str) else f"{name} {value:,}" for name, value in row.problem.items())
    if row.seconds is None or row.fastest is None or row.slowest is None:
        return f"{what}: {row.contender}: {row.failure}"
    first = next(other.seconds for other in before if other.problem == row.problem and other.seconds is not None)
    memory = "" if row.peak_bytes is None else f", {row.peak_bytes / 2**30:.2f} GiB"
    error = "" if row.error is None else f", error {row.error:.0e}"
    return (
        f"{what}: {row.contender}: {1e3 * row.seconds:.2f} ms ({1e3 * row.fastest:.2f} to {1e3 * row.slowest:.2f})"
        f"{memory}, {first / row.seconds:.1f}x{error}"
    )


def dataset_table(data_root: Path | None) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    numbers = ("nodes", "edges", "features", "classes")
    for heading in ("name", *numbers, "state", "source", "licence"):
        table.add_column(heading, no_wrap=True, justify="right" if heading in numbers else "left")
    for entry in DATASETS.values():
        counts = (f"{count:,}" for count in (entry.nodes, entry.edges, entry.features, entry.classes))
        table.add_row(entry.name, *counts, entry.state(data_root), entry.source, entry.licence)
    return table
