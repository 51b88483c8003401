"""What the command line shows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from graphkin.bench import Row
from graphkin.evaluation.evaluate import Scores
from graphkin.experiments import Experiment
from graphkin.experiments.tables import Summary
from graphkin.graphs.datasets import DATASETS
from graphkin.graphs.graph import Graph
from graphkin.support.signals import terminated
from graphkin.training.fitted import Fitted


def score_table(scores: dict[str, Scores], graph: str) -> Table:
    first = next(iter(scores.values()))
    shown = [measure for measure in first.values if not measure.startswith("val_")]
    repeats = f", {len(first.test)} times" if len(first.test) > 1 else ""
    table = Table("embedding", title=f"{graph}, protocol {first.protocol}{repeats}", title_justify="left")
    for measure in shown:
        table.add_column(f"{measure}, %", justify="right")
    for row, value in scores.items():
        summary = value.as_dict()
        cells = (
            f"{summary[f'{m}_mean']:.2f}" + (f" ± {summary[f'{m}_std']:.2f}" if len(value.test) > 1 else "") for m in shown
        )
        table.add_row(row, *cells)
    return table


def print_fit(console: Console, graph: Graph, fitted: Fitted, record: dict[str, Any], embeddings: Path) -> None:
    """What was done, by run.json's ``record``."""
    scores = record["scores"]
    console.print(
        f"{graph.name}: {graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {graph.num_features:,} features"
        + (f" ({', '.join(graph.notes)})" if graph.notes else ""),
        soft_wrap=True,
    )
    stopped = f"stopped by {'SIGTERM' if terminated() else 'Ctrl-C'} after"
    state = stopped if fitted.interrupted else "trained for"
    console.print(
        f"{fitted.method.name}: {state} {len(fitted.losses)} epochs in {fitted.seconds['train']:.1f} s "
        f"({fitted.kernel} kernel), loss {fitted.losses[-1]:.4f}"
    )
    if record["warning"] is not None:
        console.print(f"warning: {record['warning']}", style="yellow", soft_wrap=True)
    if "not_scored" in scores:
        console.print(f"not scored: {scores['not_scored']}", soft_wrap=True)
    else:
        rows = {scores["of"]: scores, **scores["baselines"]}
        table = {name: Scores(row["protocol"], {"accuracy": tuple(row["accuracy"])}) for name, row in rows.items()}
        console.print(score_table(table, graph.name))
    console.print(f"wrote {embeddings}, model.graphkin, run.json", soft_wrap=True)


def experiment_table(experiments: list[Experiment]) -> Table:
    table = Table("name", "what", "graphs", "seeds", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.columns[0].no_wrap = True
    for entry in experiments:
        table.add_row(entry.name, entry.title, ", ".join(entry.datasets), str(entry.seeds))
    return table


def summary_tables(summary: Summary) -> Iterator[Table]:
    """Graphs as columns; with several measures, a table a graph with its measures as columns."""
    experiment = summary.experiment
    if len(experiment.measures) == 1:
        yield _cells(summary, experiment.title, [(dataset, dataset, experiment.measures[0]) for dataset in summary.datasets])
        return
    for dataset in summary.datasets:
        title = f"{experiment.title}: {dataset}" + (f", by {experiment.axis}" if experiment.axis else "")
        yield _cells(summary, title, [(measure, dataset, measure) for measure in experiment.measures])


def _cells(summary: Summary, title: str, columns: list[tuple[str, str, str]]) -> Table:
    table = Table("test accuracy, %", title=title, title_justify="left", show_lines=True)
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
    """A row of ``graphkin bench`` and its speed against the first that was timed on the same problem."""
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
    for heading in ("name", "nodes", "edges", "features", "classes", "state", "source", "licence"):
        table.add_column(
            heading, no_wrap=True, justify="right" if heading in ("nodes", "edges", "features", "classes") else "left"
        )
    for entry in DATASETS.values():
        counts = (f"{count:,}" for count in (entry.nodes, entry.edges, entry.features, entry.classes))
        table.add_row(entry.name, *counts, entry.state(data_root), entry.source, entry.licence)
    return table
