"""The page: one HTML file with style sheet, scripts and plotly.js inside, so that it opens from disk."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from graphkin.errors import InputError, check_installed
from graphkin.evaluation.rows import checked_rows
from graphkin.experiments.shipped import NAMES
from graphkin.experiments.summary import Summary
from graphkin.graphs.graph import Graph
from graphkin.report.figures import Figure
from graphkin.report.fit_plots import fit_loss_figure, map_figure, weight_figure
from graphkin.report.map import node_map
from graphkin.report.plots import loss_figure, ratio_figure
from graphkin.report.reading import meanings, progress_of, sentences_of
from graphkin.report.result_tables import result_tables, score_rows, settings_table, shown_value
from graphkin.report.run_file import read_record
from graphkin.report.weights import applies, diagnose, sentences
from graphkin.training.embeddings import embeddings_file, read_embeddings
from graphkin.training.fitted import load

SCORES = {"protocol": str, "accuracy": [float], "accuracy_mean": float, "accuracy_std": float, "chosen?": [str]}
RECORD = {
    **{"method": str, "finished": str, "seed": int, "epochs": int, "losses": [float], "settings": dict},
    "graph": {"name": str, "nodes": int, "edges": int, "features": int, "notes?": [str]},
    "scores": ({"not_scored": str}, {**SCORES, "of": str, "baselines": {...: SCORES}, "advice?": str}),
    **{"versions": dict, "machine": dict, "seconds?": {"train": float}, "kernel?": (str, None), "warning?": (str, None)},
}
"""what a page needs of a run file"""
SCRIPTS = ("theme.js", "tables.js")
PLOT_SCRIPTS = ("plots.js", "map.js")


def reproduction_page(summaries: list[Summary], environments: list[dict[str, Any]], command: str) -> str:
    """Tables with the published numbers, figures and loss curves of a reproduction.

    An environment is what :func:`graphkin.support.environment.environment` says, with ``commit`` where it is known.
    """
    experiments, figures = [], []
    for summary in summaries:
        points = ratio_figure(summary) if summary.experiment.axis is not None else None
        losses = loss_figure(summary)
        figures += [figure for figure in (points, losses) if figure is not None]
        experiments.append(
            {
                "experiment": summary.experiment,
                "progress": progress_of(summary),
                "meanings": meanings(summary.experiment),
                "sentences": sentences_of(summary),
                "tables": result_tables(summary),
                "points": points,
                "losses": losses,
                "settings": settings_table(summary),
            }
        )
    done, wanted = (sum(counts) for counts in zip((0, 0), *(one["progress"] for one in experiments), strict=True))
    return render(
        "reproduction.html",
        figures,
        title=_title(summaries),
        experiments=experiments,
        done=done,
        wanted=wanted,
        facts=facts_of(environments),
        command=command,
    )


def _title(summaries: list[Summary]) -> str:
    of_paper = all(summary.experiment.name in NAMES for summary in summaries)
    return "Reproduction of the paper's tables and figures" if of_paper else "Results of experiments"


def fit_page(
    folder: Path,
    graph: Graph,
    *,
    layout: str = "tsne",
    command: str = "",
    say: Callable[[str], None] = lambda text: None,
) -> str:
    """Map, scores, weights and loss curve of the run that ``graphkin fit`` wrote to a folder, on the run's graph."""
    record = read_record(folder, RECORD)
    fitted = load(folder / "model.graphkin")
    embeddings = read_embeddings(embeddings_file(folder), graph.ids)
    for what, count in (("nodes", graph.num_nodes), ("edges", graph.num_edges), ("features", graph.num_features)):
        if count != record["graph"][what]:
            raise InputError(
                f"the graph must be the one of the run, with {record['graph'][what]} {what}, found {graph.name!r} with {count}."
            )
    embeddings = checked_rows(embeddings, graph.num_nodes)
    plotly_js()
    found = node_map(embeddings, graph, layout, say)
    figures = {"map": map_figure(found), "loss": fit_loss_figure(record["losses"])}
    diagnosis = None
    if applies(graph, fitted.method):
        say("weights by class")
        diagnosis = diagnose(graph, fitted.method)
        figures["weights"] = weight_figure(diagnosis)
    scores = record["scores"]
    return render(
        "fit.html",
        list(figures.values()),
        title=f"{record['method']} on {record['graph']['name']}",
        record=record,
        map=found,
        dimensions=embeddings.shape[1],
        shown=figures,
        diagnosis=diagnosis,
        diagnosis_sentences=[] if diagnosis is None else sentences(diagnosis),
        scores=[] if "not_scored" in scores else score_rows(scores),
        settings={name: shown_value(value) for name, value in record["settings"].items()},
        facts=facts_of([record]),
        command=command,
    )


@functools.cache
def plotly_js() -> str:
    check_installed("report", "plotly")
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def asset(name: str) -> str:
    return resources.files("graphkin.report").joinpath("assets", name).read_text(encoding="utf-8")


def render(template: str, figures: Sequence[Figure] | None, **values: Any) -> str:
    """Figures are embedded as JSON with "<" escaped, so that no text in them can end the script. None: it needs no plotly."""
    templates = jinja2.Environment(
        loader=jinja2.FunctionLoader(asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return templates.get_template(template).render(
        style=asset("page.css"),
        scripts="\n".join(asset(name) for name in SCRIPTS + (PLOT_SCRIPTS if figures is not None else ())),
        plotly=None if figures is None else plotly_js(),
        figures=[figure.as_dict() for figure in figures or ()],
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        **values,
    )


def facts_of(environments: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Where, with what and when runs were made; each machine, set of versions and commit is listed once."""
    found: dict[str, list[str]] = {"Machine": [], "Versions": [], "Commit": [], "Finished": []}
    for environment in environments:
        machine, versions = environment.get("machine") or {}, environment.get("versions") or {}
        threads = machine.get("threads")
        parts = [machine.get("gpu"), machine.get("system"), f"{threads} thread{'s'[: threads != 1]}" if threads else None]
        found["Machine"].append(", ".join(str(part) for part in parts if part))
        found["Versions"].append(", ".join(f"{name} {version}" for name, version in versions.items() if version))
        commit, *rest = str(environment.get("commit") or "").partition("-")
        found["Commit"].append(commit[:7] + "".join(rest))
        found["Finished"].append(str(environment.get("finished") or "").replace("T", " ").replace("+00:00", " UTC"))
    different = {name: list(dict.fromkeys(filter(None, lines))) for name, lines in found.items()}
    different["Commit"] = [", ".join(different["Commit"])] if different["Commit"] else []
    different["Finished"] = [" to ".join(dict.fromkeys((min(times), max(times)))) for times in [different["Finished"]] if times]
    return {name: lines for name, lines in different.items() if lines}
