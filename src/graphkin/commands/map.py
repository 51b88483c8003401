"""``graphkin map``."""

from __future__ import annotations

import sys

import numpy as np

from graphkin.commands.nodes import TABLES, nodes_of_run
from graphkin.commands.options.map import Map
from graphkin.commands.output import print_json, say
from graphkin.commands.runs import check_file
from graphkin.commands.source import graph_of_run, graph_record
from graphkin.errors import InputError, OutputError, SettingError, check_choice
from graphkin.graphs.arrow import write_table
from graphkin.graphs.graph import Graph
from graphkin.report.map import groups_of, labels_of
from graphkin.report.picture import FORMATS, check_picture, draw
from graphkin.support.files import check_writable
from graphkin.uses.layout import LAYOUTS, layout
from graphkin.uses.rows import SAMPLE, sample, unit_embeddings

COLOURS = ("auto", "label", "cluster")


def run(options: Map) -> None:
    check_choice("layout", options.layout, LAYOUTS)
    check_choice("colour", options.colour, COLOURS)
    graph_record(options.run)
    if options.target.suffix.lower() in FORMATS:
        raise OutputError(f"--out is the file of coordinates (.csv, .parquet); for a picture write --picture {options.target}.")
    target, picture = check_file(options.target, overwrite=options.overwrite, suffixes=TABLES), options.drawn
    if picture is not None:
        check_picture(picture)
        if picture.exists() and not options.overwrite:
            raise OutputError(f"{picture} exists already: choose another --picture, or add --overwrite.")
        check_writable(picture.parent)
    graph, note = _graph_with_labels(options)
    nodes = nodes_of_run(options.run, graph)
    if not options.as_json:
        print(f"{options.layout} of {len(nodes.rows):,} nodes", file=sys.stderr)
    unit = unit_embeddings(nodes.rows)
    points = layout(unit, options.layout)
    groups = groups_of(graph, unit)
    column = [groups.names[place] for place in groups.places] if groups.kind == "label" else groups.places + 1
    write_table(target, nodes.ids, {"x": points[:, 0], "y": points[:, 1], groups.kind: np.array(column)})
    if picture is not None:
        shown = sample(len(points), SAMPLE) if options.layout == "tsne" else np.arange(len(points))
        part = "" if len(shown) == len(points) else f"{len(shown):,} of "
        title = f"{nodes.title}: {part}{len(points):,} nodes by {options.layout}"
        draw(picture, points[shown], groups.places[shown], groups.names, title)
    if options.as_json:
        record = {"out": str(target), "picture": None if picture is None else str(picture), "nodes": len(points)}
        print_json({"run": str(options.run), **record, "layout": options.layout, "colour": groups.kind})
        return
    if note is not None:
        say(note)
    say(f"wrote {target}" + ("" if picture is None else f", {picture}"))


def _graph_with_labels(options: Map) -> tuple[Graph | None, str | None]:
    """The graph, where its labels are the colours; otherwise, why clusters are."""
    if options.colour == "cluster":
        return None, None
    try:
        graph = graph_of_run(options.run, options.graph, options)
    except InputError as reason:
        if options.colour == "label" or options.graph is not None:
            raise
        return None, f"colours are clusters, not labels: {reason}"
    if labels_of(graph):
        return graph, None
    if options.colour == "label":
        raise SettingError(f"--colour label needs labels, and the graph {graph.name} has none; use --colour cluster.")
    return None, "colours are clusters, because the graph has no labels"
