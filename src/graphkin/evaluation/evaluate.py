"""How good embeddings are, by named protocols (docs/math.md, section 6). Test labels choose nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphkin.errors import GraphError, SettingError, check_whole
from graphkin.evaluation.protocols import PROTOCOLS, Protocol
from graphkin.evaluation.rows import Rows, checked_rows
from graphkin.evaluation.scores import Scores
from graphkin.evaluation.scoring import Subject
from graphkin.graphs.arrays import no_labels
from graphkin.graphs.graph import Graph
from graphkin.graphs.inputs import GraphLike, as_graph
from graphkin.graphs.splits import Split

MOST_SPLITS = 100_000


def evaluate(
    embeddings: Tensor | Rows,
    data: GraphLike,
    *,
    protocol: str | Protocol = "grace",
    splits: int | Sequence[Split] = 10,
    seed: int = 0,
    **options: Any,
) -> Scores:
    """Score embeddings against the labels of a graph, or its held-out edges. Nodes without a label are left out.

    Protocols, with their options:
        grace: logistic regression on random splits, C chosen on validation nodes; rows of unit length.
            ``train=0.1``, ``val=0.1``: shares of the nodes; ``ratio=None``: train on this share, drawn from ``train``.
        gca: logistic regression by Adam, at the epoch that is best on validation nodes; rows as they are.
            On the same splits, with the same options; where the graph comes with several splits, on those.
        public: as grace, on the splits that come with the graph.
        few-labels: as grace, on the first public split with few training nodes of each class.
            ``per_class=5``: how many.
        clustering: k-means into as many clusters as there are classes; rows of unit length.
        search: similarity search: how many of a node's nearest nodes, by cosine, share its class.
        links: link prediction: how well cosines rank edges held out before training above pairs without an edge.
            It needs no labels. ``data`` is what :func:`graphkin.hold_out_edges` gave, and the embeddings were trained on it.
        leaderboard: accuracy as grace, clustering and search of the same embeddings.
            On the splits of grace, with the same options.
        habit-refit: not for own claims: as grace, but fitted again on training and validation nodes.
        habit-swapped: not for own claims: as grace, but with validation and test nodes swapped.
        habit-best-test: not for own claims: as gca, but at the epoch that is best on test nodes.

    A protocol of your own is a :class:`~graphkin.evaluation.protocols.Protocol`: give the value, or the name that it has in
    ``PROTOCOLS``.

    ``splits`` says how often splits are drawn or k-means is run; public, search and links have nothing to repeat. The first
    time has seed ``seed``, the next one ``seed + 1``. Protocols that draw 10/10/80 splits also take a list of
    :class:`graphkin.Split`; one with nodes outside the graph, or with a test class that is not in training, is refused.
    """
    graph = as_graph(data)
    chosen = protocol if isinstance(protocol, Protocol) else PROTOCOLS.named(protocol)
    own = _own_splits(chosen, splits, options)
    settled = chosen.settled(options)
    repeats: Any = splits if own is None else len(own)
    check_whole("splits", repeats, at_least=1, at_most=MOST_SPLITS)
    check_whole("seed", seed, at_least=0)
    rows = checked_rows(embeddings, graph.num_nodes)
    labels = _checked_labels(graph) if chosen.needs_labels else np.full(graph.num_nodes, -1)
    seeds = range(seed, seed + repeats)
    drawn = chosen.drawn(graph, seeds, settled) if own is None else _checked_splits(own, labels)
    values = chosen.score(
        Subject(rows, labels, drawn, seeds, graph.held_out),
        **{option.name: settled[option.name] for option in chosen.score_options},
    )
    return Scores(chosen.name, _checked_values(chosen, values))


def _own_splits(protocol: Protocol, splits: object, options: Mapping[str, Any]) -> tuple[Split, ...] | None:
    """The user's own splits; None if ``splits`` is not a list."""
    if not isinstance(splits, list | tuple):
        return None
    if not all(isinstance(split, Split) for split in splits):
        raise SettingError("splits must be a number, or a list of graphkin.Split, found something else in the list.")
    if protocol.splits is None or not protocol.splits.replaceable:
        taking = [one.name for one in PROTOCOLS.values() if one.splits is not None and one.splits.replaceable]
        raise SettingError(
            f"splits must be a number for protocol {protocol.name}, found a list of {len(splits)}; "
            f"a list goes with {', '.join(taking)}."
        )
    for option in protocol.splits.options:
        if option.name in options:
            raise SettingError(f"{option.name} draws splits, and splits are given: leave one of them out.")
    return tuple(splits)


def _checked_splits(splits: Iterable[Split], labels: np.ndarray) -> Iterable[Split]:
    for split in splits:
        split.check(len(labels), torch.from_numpy(labels))
        yield split


def _checked_labels(graph: Graph) -> np.ndarray:
    """Classes, -1 where unknown."""
    if graph.y is None:
        raise GraphError(f"evaluation needs labels, and {no_labels()}")
    labels = graph.y.cpu().numpy()
    classes = len(np.unique(labels[labels >= 0]))
    if classes < 2:
        missing = int((labels < 0).sum())
        raise GraphError(f"evaluation needs at least 2 classes, found {classes} ({missing} nodes have no label).")
    return labels


def _checked_values(protocol: Protocol, values: Any) -> dict[str, tuple[float, ...]]:
    """What a protocol returned, which must be what it declares."""
    promised = list(protocol.measures)
    if not isinstance(values, Mapping) or sorted(map(str, values)) != sorted(promised):
        found = list(values) if isinstance(values, Mapping) else type(values).__name__
        raise SettingError(f"protocol {protocol.name} must give values of {', '.join(promised)}, found {found}.")
    checked = {name: tuple(float(value) for value in values[name]) for name in promised}
    counts = {name: len(numbers) for name, numbers in checked.items()}
    if min(counts.values()) < 1 or len(set(counts.values())) > 1:
        raise SettingError(f"protocol {protocol.name} must give every measure the same number of values, found {counts}.")
    return checked
