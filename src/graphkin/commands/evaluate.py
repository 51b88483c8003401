"""``graphkin evaluate``."""

from __future__ import annotations

from typing import Any

from graphkin.commands.display import print_scores
from graphkin.commands.options.evaluate import Evaluate
from graphkin.commands.output import print_json
from graphkin.commands.runs import graph_of_run, with_baselines
from graphkin.evaluation.baselines import scored_baselines
from graphkin.evaluation.evaluate import evaluate
from graphkin.evaluation.protocols import PROTOCOLS
from graphkin.evaluation.scores import Scores
from graphkin.graphs.readers import open_graph
from graphkin.training.embeddings import read_embeddings
from graphkin.training.plan import resolve


def run(options: Evaluate) -> None:
    graph = open_graph(options.graph or graph_of_run(options.embeddings), **options.reading())

    def score(rows: Any) -> Scores:
        how: dict[str, Any] = {"protocol": options.protocol, "splits": options.splits, "seed": options.seed}
        return evaluate(rows, graph, **how, **options.given())

    scores = {"embeddings": score(read_embeddings(options.embeddings, graph.ids))}
    if options.baselines:
        scores |= scored_baselines(score, graph, resolve("grace", graph), options.seed)
    record = with_baselines(scores)
    if options.as_json:
        print_json({"graph": graph.name, **record})
    else:
        print_scores(record, graph.name)


def print_protocols() -> None:
    for name in PROTOCOLS:
        print(name)
