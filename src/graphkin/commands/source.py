"""Where the graph of a run came from: recorded by fit, found again by what reads the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphkin.commands.held_out import FILE as HELD_OUT_FILE
from graphkin.commands.held_out import with_held_out
from graphkin.commands.options.shared import ReadingOptions
from graphkin.errors import OutputError
from graphkin.graphs.catalogue import DATASETS, DEFAULT
from graphkin.graphs.graph import Graph
from graphkin.graphs.readers import open_graph
from graphkin.graphs.synthetic import NAMED
from graphkin.report.run_file import read_record
from graphkin.support.files import reading
from graphkin.support.shapes import check_shape

SOURCE = {"graph": str, "file": bool, "folder": str, "paths": {...: str}, "options": dict}
COUNTS = {"nodes": int, "edges": int, "features": int, "held_out?": int}
SHAPE = {"graph": {"name": str, **COUNTS, "content?": str, "source?": SOURCE}}


def source_of(graph: str, options: ReadingOptions) -> dict[str, Any]:
    """For run.json: the graph as it was named, in which folder, and how it was read. Paths stay as they were given."""
    given = options.reading()
    paths = {name: str(value) for name, value in given.items() if isinstance(value, Path)}
    return {
        "graph": graph,
        "file": graph not in DATASETS and Path(graph).exists(),
        "folder": str(Path.cwd()),
        "paths": paths,
        "options": {name: _plain(value) for name, value in given.items() if name not in paths},
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def graph_record(folder: Path) -> dict[str, Any]:
    """What the run file of a folder says, with a graph in it."""
    return read_record(folder, SHAPE)


def graph_of_run(folder: Path, given: str | None, options: ReadingOptions) -> Graph:
    """The graph that is ``given``; otherwise that of the run, which must not have changed. Both without held-out edges.

    Options that the user gave replace the recorded ones. Without a run file, this is the bundled Cora.
    """
    if given:
        graph = open_graph(given, **options.reading())
        return with_held_out(folder, graph) if (folder / HELD_OUT_FILE).is_file() else graph
    if folder.is_dir() and not (folder / "run.json").is_file():
        return open_graph(DEFAULT, **options.reading())
    about = graph_record(folder)["graph"]
    name, how = _recorded(folder, about)
    usual = ReadingOptions().reading()
    changed = {key: value for key, value in options.reading().items() if value != usual[key]}
    graph = open_graph(name, **{**usual, **how, **changed})
    if "held_out" in about:
        graph = with_held_out(folder, graph)
    if not changed:
        _check_unchanged(folder, about, graph, name)
    return graph


def _recorded(folder: Path, about: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name or path of the graph, and the options to read it with.

    Paths are those from the folder in which the run was started; if the graph is not there any more, those from this one.
    """
    if "source" not in about:
        name = about["name"]
        if name not in DATASETS and not NAMED.fullmatch(name):
            raise OutputError(
                f"name the graph in the command: {folder} was made from {name!r}, which is not the name of a dataset, "
                "and its run.json, from an earlier version, does not say where the graph is."
            )
        return name, {}
    source = about["source"]
    with reading(folder / "run.json", "was not written by graphkin fit, or is damaged", OutputError):
        _check_options({**source["paths"], **source["options"]})
    base = Path(source["folder"])
    if source["file"] and not (base / source["graph"]).exists():
        if not Path(source["graph"]).exists():
            raise OutputError(
                f"the graph of {folder} is not at {base / source['graph']} any more: name the graph in the command."
            )
        base = Path()
    paths = {name: base / path for name, path in source["paths"].items()}
    return str(base / source["graph"]) if source["file"] else source["graph"], {**source["options"], **paths}


def _check_options(found: dict[str, Any]) -> None:
    """Each must be one that there is, and of the type that it has."""
    for name, value in found.items():
        if name not in (usual := ReadingOptions().reading()):
            raise ValueError(f"its graph was read with an unknown option {name!r}")
        listed, default = isinstance(usual[name], list | tuple), usual[name]
        check_shape(value, [str] if listed else (str, None) if default is None else type(default), f"the option {name}")


def _check_unchanged(folder: Path, about: dict[str, Any], graph: Graph, name: str) -> None:
    """By the digest; a run without one, by the counts."""
    counts = {"nodes": graph.num_nodes, "edges": graph.num_edges, "features": graph.num_features}
    differing = [f"{now:,} {what} for {about[what]:,}" for what, now in counts.items() if about[what] != now]
    if about.get("content", graph.content) == graph.content and not differing:
        return
    found = ", ".join(differing) or "other edges, features, labels or splits"
    raise OutputError(
        f"the graph {name} has changed since the run {folder}, found {found}: fit again, or name the graph to use it as it is."
    )
