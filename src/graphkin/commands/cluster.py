"""``graphkin cluster``."""

from __future__ import annotations

from rich.table import Table

from graphkin.commands.nodes import TABLES, nodes_of_run
from graphkin.commands.options.cluster import Cluster
from graphkin.commands.output import console, print_json, say
from graphkin.commands.runs import check_file
from graphkin.errors import check_whole
from graphkin.graphs.arrow import write_table
from graphkin.uses.cluster import cluster


def run(options: Cluster) -> None:
    if options.count is not None:
        check_whole("count", options.count, at_least=1)
    nodes = nodes_of_run(options.run)
    target = check_file(options.target, overwrite=options.overwrite, suffixes=TABLES)
    found = cluster(nodes.rows, options.count, seed=options.seed)
    write_table(target, nodes.ids, {"cluster": found.numbers})
    shown = list(zip(found.sizes, (nodes.plain(places) for places in found.central), strict=True))
    if options.as_json:
        clusters = [{"cluster": place, "nodes": size, "central": names} for place, (size, names) in enumerate(shown, start=1)]
        silhouettes = {str(count): value for count, value in found.silhouettes.items()}
        record = {"out": str(target), "count": found.count, "why": found.why, "silhouettes": silhouettes}
        print_json({"run": str(options.run), **record, "clusters": clusters})
        return
    table = Table("cluster", title=nodes.title, title_justify="left")
    table.add_column("nodes", justify="right")
    table.add_column("most central")
    for place, (size, names) in enumerate(shown, start=1):
        table.add_row(str(place), f"{size:,}", ", ".join(map(str, names)))
    console.print(table)
    say(found.why)
    say(f"wrote {target}")
