"""``graphkin evaluate``."""

from __future__ import annotations

from typing import Any

from graphkin.commands.display import print_scores
from graphkin.commands.options.evaluate import Evaluate
from graphkin.commands.output import print_json
from graphkin.commands.runs import with_baselines
from graphkin.commands.source import graph_of_run
from graphkin.evaluation.baselines import scored_baselines
from graphkin.evaluation.evaluate import evaluate
from graphkin.evaluation.protocols import PROTOCOLS
from graphkin.evaluation.scores import Scores
from graphkin.training.embeddings import embeddings_file, read_embeddings
from graphkin.training.plan import resolve


def run(options: Evaluate) -> None:
    file = embeddings_file(options.embeddings) if options.embeddings.is_dir() else options.embeddings
    graph = graph_of_run(file.parent, options.graph, options)

    def score(rows: Any) -> Scores:
        how: dict[str, Any] = {"protocol": options.protocol, "splits": options.splits, "seed": options.seed}
        return evaluate(rows, graph, **how, **options.given())

    scores = {"embeddings": score(read_embeddings(file, graph.ids))}
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
