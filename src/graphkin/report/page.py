"""The page: one HTML file with its style sheet, scripts and data inside, so that it opens from disk."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from graphkin.errors import InputError
from graphkin.evaluation.rows import checked_rows
from graphkin.experiments.board import PROTOCOL, Board
from graphkin.experiments.shipped import NAMES
from graphkin.experiments.summary import Summary
from graphkin.graphs.graph import Graph
from graphkin.report.answer import answer
from graphkin.report.board import shown_board
from graphkin.report.fit_plots import fit_loss_figure, map_figure, weight_bars
from graphkin.report.glance import glance
from graphkin.report.map import node_map
from graphkin.report.plots import loss_figure, ratio_figure
from graphkin.report.reading import meanings, progress_of, sentences_of
from graphkin.report.result_tables import result_tables, score_rows, settings_table, shown_value
from graphkin.report.run_file import read_record
from graphkin.report.weights import applies, diagnose, sentences
from graphkin.training.embeddings import embeddings_file, read_embeddings
from graphkin.training.fitted import load
from graphkin.uses.cluster import Clusters

SCORES = {"protocol": str, "accuracy": [float], "accuracy_mean": float, "accuracy_std": float, "chosen?": [str]}
RECORD = {
    **{"method": str, "finished": str, "seed": int, "epochs": int, "losses": [float], "settings": dict},
    "graph": {"name": str, "nodes": int, "edges": int, "features": int, "notes?": [str]},
    "scores": ({"not_scored": str}, {**SCORES, "of": str, "baselines": {...: SCORES}, "advice?": str}),
    **{"versions": dict, "machine": dict, "seconds?": {"train": float}, "kernel?": (str, None), "warning?": (str, None)},
}
"""what a page needs of a run file"""
SCRIPTS = ("theme.js", "tips.js", "tables.js", "board.js", "charts.js")
MAP_SCRIPTS = ("map.js", "nodes.js", "gestures.js")


def reproduction_page(
    summaries: list[Summary], environments: list[dict[str, Any]], command: str, board: Board | None = None
) -> str:
    """Tables with the published numbers, figures and loss curves of a reproduction; with a board, the leaderboard first.

    An environment is what :func:`graphkin.support.environment.environment` says, with ``commit`` where it is known.
    """
    experiments = [
        {
            "experiment": summary.experiment,
            "progress": progress_of(summary),
            "meanings": meanings(summary.experiment),
            "sentences": sentences_of(summary),
            "tables": result_tables(summary),
            "points": ratio_figure(summary) if summary.experiment.axis is not None else None,
            "losses": loss_figure(summary),
            "settings": settings_table(summary),
        }
        for summary in summaries
    ]
    done, wanted = (sum(counts) for counts in zip((0, 0), *map(progress_of, summaries), strict=True))
    return render(
        "reproduction.html",
        title=_title(summaries),
        experiments=experiments,
        glance=glance(summaries),
        board=None if board is None else shown_board(board),
        done=done,
        wanted=wanted,
        facts=facts_of(environments),
        command=command,
    )


def _title(summaries: list[Summary]) -> str:
    of_paper = all(summary.experiment.name in NAMES for summary in summaries)
    if all(summary.experiment.protocol == PROTOCOL for summary in summaries):
        return "Leaderboard"
    return "Reproduction of the paper's tables and figures" if of_paper else "Results of experiments"


def fit_page(
    folder: Path,
    graph: Graph,
    *,
    layout: str = "tsne",
    command: str = "",
    say: Callable[[str], None] = lambda text: None,
) -> str:
    """The answer, map, scores, weights and loss curve of the run that ``graphkin fit`` wrote to a folder, on its graph."""
    record = read_record(folder, RECORD)
    fitted = load(folder / "model.graphkin")
    embeddings = read_embeddings(embeddings_file(folder), graph.ids)
    for what, count in (("nodes", graph.num_nodes), ("edges", graph.num_edges), ("features", graph.num_features)):
        if count != record["graph"][what]:
            raise InputError(
                f"the graph must be the one of the run, with {record['graph'][what]} {what}, found {graph.name!r} with {count}."
            )
    embeddings = checked_rows(embeddings, graph.num_nodes)
    found = node_map(embeddings, graph, layout, say)
    diagnosis = None
    if applies(graph, fitted.method):
        say("weights by class")
        diagnosis = diagnose(graph, fitted.method)
    drawn, scores = map_figure(found), record["scores"]
    return render(
        "fit.html",
        drawn.nodes,
        title=f"{record['method']} on {record['graph']['name']}",
        answer=answer(record, folder, found.clusters, fitted.method.needs_labels),
        record=record,
        map=found,
        drawn=drawn,
        clusters=[] if found.clusters is None else _clusters(found.clusters, graph),
        dimensions=embeddings.shape[1],
        loss=fit_loss_figure(record["losses"]) if record["losses"] else None,
        diagnosis=diagnosis,
        diagnosis_sentences=[] if diagnosis is None else sentences(diagnosis),
        bars={} if diagnosis is None else weight_bars(diagnosis),
        scores=[] if "not_scored" in scores else score_rows(scores),
        settings={name: shown_value(value) for name, value in record["settings"].items()},
        facts=facts_of([record]) | ({"Kernel": [record["kernel"]]} if record.get("kernel") else {}),
        command=command,
    )


def _clusters(found: Clusters, graph: Graph) -> list[tuple[str, int, str]]:
    """The name of each cluster, its size, and its most central nodes."""
    ids = range(graph.num_nodes) if graph.ids is None else graph.ids
    return [
        (f"cluster {number}", size, ", ".join(str(ids[node]) for node in nodes))
        for number, (size, nodes) in enumerate(zip(found.sizes, found.central, strict=True), 1)
    ]


def asset(name: str) -> str:
    return resources.files("graphkin.report").joinpath("assets", name).read_text(encoding="utf-8")


def render(template: str, nodes: dict[str, Any] | None = None, **values: Any) -> str:
    """``nodes`` are what a map shows, as JSON with "<" escaped, so that no text in them can end the script.

    The page allows the scripts that are part of it, by their digests, and no others.
    """
    templates = jinja2.Environment(
        loader=jinja2.FunctionLoader(asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    early = asset("early.js")
    scripts = "\n".join(asset(name) for name in SCRIPTS + (MAP_SCRIPTS if nodes is not None else ()))
    return templates.get_template(template).render(
        style=asset("page.css"),
        early=early,
        scripts=scripts,
        allowed=" ".join(f"'sha256-{_digest(script)}'" for script in (early, scripts)),
        nodes=nodes,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        **values,
    )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


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
