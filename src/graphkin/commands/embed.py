"""``graphkin embed``."""

from __future__ import annotations

from graphkin.commands.display import with_notes
from graphkin.commands.options.embed import Embed
from graphkin.commands.output import print_json, say
from graphkin.commands.runs import check_file
from graphkin.graphs.readers import open_graph
from graphkin.training.embeddings import write_embeddings
from graphkin.training.fitted import load


def run(options: Embed) -> None:
    fitted = load(options.model)
    reading = options.reading()
    if fitted.recipe is not None:
        reading["columns"] = fitted.recipe.kinds | reading["columns"]
    graph = open_graph(options.graph, **reading)
    target = check_file(options.out, overwrite=options.overwrite)
    nodes, dimensions = write_embeddings(target, fitted.embed_in_blocks(graph), graph.num_nodes, graph.ids).shape
    if options.as_json:
        print_json({"out": str(target), "nodes": nodes, "dimensions": dimensions, "notes": list(graph.notes)})
    else:
        say(f"{target}: {nodes:,} nodes, {dimensions} dimensions{with_notes(graph)}")
