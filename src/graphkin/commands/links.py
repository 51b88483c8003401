"""``graphkin links``."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict

from rich.table import Table

from graphkin.commands.nodes import TABLES, RunNodes, nodes_of_run
from graphkin.commands.options.links import Links
from graphkin.commands.output import console, print_json, say
from graphkin.commands.runs import check_file
from graphkin.commands.source import graph_of_run, graph_record
from graphkin.errors import check_whole
from graphkin.graphs.arrow import write_columns
from graphkin.training.device import device_named
from graphkin.uses.links import MOST_LINKS, links
from graphkin.uses.nearest import Approximate

EVERY = 10
"""seconds between lines of progress"""


def run(options: Links) -> None:
    check_whole("count", options.count, at_least=1, at_most=MOST_LINKS)
    device_named(options.device)
    graph_record(options.run)
    if options.out is not None:
        check_file(options.out, overwrite=options.overwrite, suffixes=TABLES)
    graph = graph_of_run(options.run, options.graph, options)
    nodes = nodes_of_run(options.run, graph)
    progress = _Progress(options.quiet)
    found = links(
        nodes.rows, graph, options.count, exact=options.exact, device=options.device, progress=progress, say=progress.say
    )
    if options.out is not None:
        source, target = nodes.ids[found.pairs.T]
        write_columns(options.out, {"source": source, "target": target, "cosine": found.cosines})
    ends = [nodes.plain(column) for column in found.pairs.T]
    _show(options, nodes, list(zip(*ends, found.cosines.tolist(), strict=True)), found.approximate)


def _show(options: Links, nodes: RunNodes, found: list[tuple[object, object, float]], approximate: Approximate | None) -> None:
    if options.as_json:
        listed = [{"source": source, "target": target, "cosine": cosine} for source, target, cosine in found]
        out = None if options.out is None else str(options.out)
        how = None if approximate is None else asdict(approximate)
        print_json({"run": str(options.run), "links": listed, "approximate": how, "out": out})
        return
    table = Table("source", "target", title=nodes.title, title_justify="left")
    table.add_column("cosine", justify="right")
    for source, target, cosine in found:
        table.add_row(str(source), str(target), f"{cosine:.4f}")
    console.print(table)
    if approximate is not None:
        say(f"{approximate}; --exact compares all pairs")
    elif len(found) < options.count:
        say(f"the graph has only {len(found):,} pairs of nodes without an edge")
    if options.out is not None:
        say(f"wrote {options.out}")


class _Progress:
    """A line on standard error every ten seconds."""

    def __init__(self, quiet: bool) -> None:
        self.quiet, self.start = quiet, time.perf_counter()
        self.last = self.start

    def __call__(self, done: float) -> None:
        now = time.perf_counter()
        if now - self.last < EVERY or done == 1:
            return
        self.last = now
        self.say(f"{100 * done:.0f} % done, about {(now - self.start) * (1 - done) / done:.0f} s left")

    def say(self, line: str) -> None:
        if not self.quiet:
            print(f"links: {line}", file=sys.stderr, flush=True)
