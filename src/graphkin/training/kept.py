"""Trained embeddings, kept while the process lives: cross-validation trains once, not once for every fold.

Whatever a result depends on is part of the key, so that nothing kept is ever out of date.
"""

from __future__ import annotations

import copy
import json
from collections import OrderedDict
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from graphkin.graphs.graph import Graph
from graphkin.methods import Method
from graphkin.support.progress import tell
from graphkin.training.fit import fit
from graphkin.training.fitted import Fitted
from graphkin.training.plan import plan

MOST_BYTES = 2**30
"""of embeddings that are kept; the last ones are kept whatever their size"""
NEVER_KEPT = ("checkpoint", "checkpoint_every", "similarity")
"""options with which every call trains: they write a file, or are known by a part of what they are"""
_KEPT: OrderedDict[Any, Embedded] = OrderedDict()
_LOCK = Lock()


class Embedded(NamedTuple):
    fitted: Fitted
    rows: np.ndarray
    """[N, d], not to be written to"""


def embedded(graph: Graph, method: str | Method | None, *, seed: int, progress: str | bool, **how: Any) -> Embedded:
    """:func:`graphkin.fit` and the embeddings of its graph, from an earlier call where that was the same."""
    key = None if any(name in how for name in NEVER_KEPT) else _key(graph, method, seed, how)
    found = _recalled(key)
    if found is not None:
        tell(progress, [f"{found.fitted.method.name} on {graph.name}: trained before with the same settings"])
        return found
    fitted = fit(graph, method, seed=seed, progress=progress, **how)
    rows = fitted.embed(graph).numpy()
    rows.setflags(write=False)
    if key is not None and not fitted.interrupted:
        _keep(key, Embedded(copy.deepcopy(fitted), rows))
    return Embedded(fitted, rows)


def _key(graph: Graph, method: str | Method | None, seed: int, how: dict[str, Any]) -> Any:
    """None where a component of the method cannot be told from others."""
    planned = plan(graph, method, **how)
    kind = json.dumps(planned.execution.record())
    of_graph = planned.graph.content, planned.graph.feature_names, planned.recipe, planned.features
    key = planned.method, planned.feature_scale, seed, str(planned.device), kind, of_graph
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _recalled(key: Any) -> Embedded | None:
    with _LOCK:
        if key is None or key not in _KEPT:
            return None
        _KEPT.move_to_end(key)
        found = _KEPT[key]
    return found._replace(fitted=copy.deepcopy(found.fitted))


def _keep(key: Any, found: Embedded) -> None:
    with _LOCK:
        _KEPT[key] = found
        _KEPT.move_to_end(key)
        while len(_KEPT) > 1 and sum(one.rows.nbytes for one in _KEPT.values()) > MOST_BYTES:
            _KEPT.popitem(last=False)
