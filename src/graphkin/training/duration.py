"""How long a plan will take on a CPU, from parts of the work that are timed before training.

Up to ``WHOLE`` nodes these are the real preparation, a few steps and an embedding, all on the graph itself. A larger graph has
a stand-in: some of its nodes with their features, and as many edges for each, which lead anywhere. What grows with the graph is
scaled up.
"""

from __future__ import annotations

import logging
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from graphkin.graphs.graph import Graph
from graphkin.models.encoder import declares
from graphkin.support.parallel import peers
from graphkin.support.progress import LOG, Style, chosen_style
from graphkin.support.randomness import generator, some_of
from graphkin.support.sparse import SparseMatrix
from graphkin.training.loop import timed_steps

if TYPE_CHECKING:
    from graphkin.training.plan import Plan
    from graphkin.training.prepared import Prepared

WHOLE = 30_000
"""nodes up to which nothing is scaled up"""
SMALLEST, LARGEST, SHARE = 12_288, 65_536, 16
"""nodes of a stand-in: one of ``SHARE`` within these bounds"""
FEWEST_EPOCHS = 30
"""below which the estimate would take longer than what it saves"""


@dataclass(frozen=True)
class Duration:
    """Seconds."""

    prepare: float
    step: float
    embed: float
    epochs: int

    @property
    def total(self) -> float:
        return self.prepare + self.epochs * self.step + self.embed

    def __str__(self) -> str:
        prepare, step, embed = (_shown(seconds) for seconds in (self.prepare, self.step, self.embed))
        return f"about {_shown(self.total)}: {prepare} to prepare, {self.epochs:,} epochs of {step}, {embed} to embed"


def is_told(planned: Plan, progress: Style, checkpoint: Path | None) -> bool:
    """Whether anyone reads an estimate, and it can be made."""
    style, method = chosen_style(progress), planned.method
    read = isinstance(style, str) and (style in ("bar", "lines") or (style == "log" and LOG.isEnabledFor(logging.INFO)))
    known = planned.graph.num_nodes <= WHOLE or not (planned.own or method.needs_labels)
    trains = method.objective.trains and method.optimiser.epochs >= FEWEST_EPOCHS
    alone = planned.device.type == "cpu" and peers().size == 1
    return read and known and trains and alone and not (checkpoint is not None and checkpoint.exists())


def duration(prepared: Prepared) -> Duration:
    """Of a plan that is prepared already."""
    return Duration(prepared.seconds, _step(prepared), _embedding(prepared), prepared.plan.method.optimiser.epochs)


def duration_before(planned: Plan) -> Duration:
    """Of a plan on a large graph, from its stand-in, before anything is computed for it."""
    method, nodes = planned.method, planned.graph.num_nodes
    part = min(max(SMALLEST, nodes // SHARE), LARGEST)
    ratio = nodes / part
    planned = replace(planned, recipe=None)  # which was applied to the graph already
    prepared = replace(planned, graph=stand_in(planned.graph, part)).prepare()
    of_objective, step = prepared.seconds_of_objective, _step(prepared)
    compares_all = method.similarity is not None and getattr(method.similarity, "top_k", None) is None
    prepare = of_objective * ratio ** (2 if compares_all else 1) + (prepared.seconds - of_objective) * ratio
    sampling = method.sampling
    if sampling is not None and sampling.anchors is None and sampling.candidates is None:
        step *= ratio**2
    elif declares(method.encoder, "sees_edges"):
        fewer = part // 4
        of_fewer = _step(replace(planned, graph=stand_in(planned.graph, fewer)).prepare())
        step += max(step - of_fewer, 0.0) / (part - fewer) * (nodes - part)
    return Duration(prepare, step, _embedding(prepared) * ratio, method.optimiser.epochs)


def stand_in(graph: Graph, nodes: int) -> Graph:
    """Some nodes with their features and as many edges for each, which lead anywhere among them."""
    source = generator(0, "stand-in")
    kept = some_of(graph.num_nodes, nodes, source).sort().values
    place = torch.full((graph.num_nodes,), -1).scatter_(0, kept, torch.arange(nodes))
    ends = place[graph.edge_index[0]]
    of_kept = (ends >= 0).nonzero()[:, 0]
    half = of_kept[torch.rand(len(of_kept), generator=source) < 0.5]  # the other half comes back as the other direction
    pairs = torch.stack([ends[half], torch.randint(nodes, (len(half),), generator=source)])
    weights = None if graph.edge_weight is None else graph.edge_weight[half]
    x = graph.x.some_rows(kept).csr if isinstance(graph.x, SparseMatrix) else graph.x[kept]
    return Graph.from_arrays(x, pairs, edge_weight=weights, name=graph.name)


def _step(prepared: Prepared) -> float:
    plan = prepared.plan
    with _random_state_kept():
        return timed_steps(plan.method.objective.task(prepared.setup(seed=0)), plan.method, plan.device)


def _embedding(prepared: Prepared) -> float:
    """Of an untrained encoder, which takes as long."""
    start = time.perf_counter()
    with _random_state_kept():
        prepared.embed(prepared.untrained(seed=0))
    return time.perf_counter() - start


def _random_state_kept() -> AbstractContextManager[None]:
    """For encoders that draw from PyTorch's global state."""
    return torch.random.fork_rng(devices=[])


def _shown(seconds: float) -> str:
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 9.95 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
