"""``graphkin bench``."""

from __future__ import annotations

from dataclasses import asdict

from graphkin.bench import Results, read
from graphkin.bench.measurements import Measurements
from graphkin.bench.plot import plot
from graphkin.commands.display import bench_line
from graphkin.commands.options.bench import Bench
from graphkin.commands.output import print_json, say
from graphkin.support.files import check_writable


def run(options: Bench) -> None:
    wanted = Measurements.checked(
        options.what,
        nodes=options.nodes,
        widths=options.width,
        weights=options.weights,
        features=options.features,
        graphs=options.graph,
        methods=options.method,
        device=options.device,
        repeats=options.repeats,
        data_root=options.data_root,
        plot=options.plot,
    )
    check_writable(options.out)
    files = {kind: Results(options.out / f"{kind}.json") for kind in wanted.what}
    for kind, results in files.items():
        for row in wanted.rows(kind):
            results.add(row)
            if not options.as_json:
                say(bench_line(row, results.rows))
    if options.as_json:
        print_json({kind: [asdict(row) for row in results.rows] for kind, results in files.items()})
    if options.plot is not None:
        plot(read(options.out / "objective.json"), options.plot, wanted.device.type)
    if not options.as_json:
        say(f"added to {', '.join(str(results.path) for results in files.values())}")
