"""``graphkin similar``."""

from __future__ import annotations

import sys
from dataclasses import asdict

import numpy as np
from rich.table import Table

from graphkin.commands.nodes import TABLES, nodes_of_run
from graphkin.commands.options.similar import Similar
from graphkin.commands.output import console, print_json, say
from graphkin.commands.runs import check_file
from graphkin.errors import check_whole
from graphkin.graphs.arrow import write_columns
from graphkin.uses.similar import similar


def run(options: Similar) -> None:
    check_whole("count", options.count, at_least=1)
    nodes = nodes_of_run(options.run)
    places = np.array(nodes.places(options.nodes))
    if options.out is not None:
        check_file(options.out, overwrite=options.overwrite, suffixes=TABLES)
    found = similar(nodes.rows, places, options.count, exact=options.exact, say=_say)
    if options.out is not None:
        ends = {"node": np.repeat(nodes.ids[places], found.indices.shape[1]), "similar": nodes.ids[found.indices.ravel()]}
        write_columns(options.out, {**ends, "cosine": found.cosines.ravel()})
    rows = zip(nodes.plain(places), found.indices, found.cosines, strict=True)
    answer = [(name, nodes.plain(near), cosines.tolist()) for name, near, cosines in rows]
    if options.as_json:
        listed = [
            {"node": name, "similar": [{"node": other, "cosine": cosine} for other, cosine in zip(near, cosines, strict=True)]}
            for name, near, cosines in answer
        ]
        how = None if found.approximate is None else asdict(found.approximate)
        out = None if options.out is None else str(options.out)
        print_json({"run": str(options.run), "nodes": listed, "approximate": how, "out": out})
        return
    table = Table("node", "similar", title=nodes.title, title_justify="left")
    table.add_column("cosine", justify="right")
    for name, near, cosines in answer:
        for place, (other, cosine) in enumerate(zip(near, cosines, strict=True)):
            table.add_row("" if place else str(name), str(other), f"{cosine:.4f}", end_section=place == len(near) - 1)
    console.print(table)
    if found.approximate is not None:
        say(f"{found.approximate}; --exact compares all pairs")
    if options.out is not None:
        say(f"wrote {options.out}")


def _say(line: str) -> None:
    print(f"similar: {line}", file=sys.stderr, flush=True)
