"""``graphkin evaluate``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from graphkin.commands.display import print_scores
from graphkin.commands.options.evaluate import Evaluate
from graphkin.commands.output import print_json
from graphkin.commands.runs import with_baselines
from graphkin.commands.source import graph_of_run
from graphkin.errors import InputError
from graphkin.evaluation.baselines import scored_baselines
from graphkin.evaluation.evaluate import evaluate
from graphkin.evaluation.protocols import PROTOCOLS
from graphkin.evaluation.scores import Scores
from graphkin.training.embeddings import embeddings_file, read_embeddings
from graphkin.training.fitted import Fitted, load


def run(options: Evaluate) -> None:
    file = embeddings_file(options.embeddings) if options.embeddings.is_dir() else options.embeddings
    graph = graph_of_run(file.parent, options.graph, options)

    def score(rows: Any) -> Scores:
        how: dict[str, Any] = {"protocol": options.protocol, "splits": options.splits, "seed": options.seed}
        return evaluate(rows, graph, **how, **options.given())

    scores = {"embeddings": score(read_embeddings(file, graph.ids))}
    if options.baselines:
        made_by = model_of(file)
        method, seed = (None, options.seed) if made_by is None else (made_by.method, made_by.seed)
        scores |= scored_baselines(score, graph, method, seed)
    record = with_baselines(scores)
    if options.as_json:
        print_json({"graph": graph.name, **record})
    else:
        print_scores(record, graph.name)


def model_of(embeddings: Path) -> Fitted | None:
    """The model that made them, where they are those of a run; other embeddings may come from anywhere.

    A model that cannot be loaded costs a row of the table, not the scores.
    """
    model = embeddings.parent / "model.graphkin"
    if embeddings.stem != "embeddings" or not model.is_file():
        return None
    try:
        return load(model)
    except InputError as reason:
        print(f"graphkin: no row for the untrained encoder: {reason}", file=sys.stderr)
        return None


def print_protocols() -> None:
    for name in PROTOCOLS:
        print(name)
