"""A method on a graph: :func:`fit` decides how, prepares, trains, and returns a :class:`~graphkin.training.fitted.Fitted`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from graphkin.errors import SettingError, check_whole
from graphkin.graphs.inputs import GraphLike
from graphkin.methods import Method
from graphkin.support.files import checked_path
from graphkin.support.parallel import peers
from graphkin.support.progress import tell
from graphkin.training.fitted import Fitted
from graphkin.training.plan import Plan, plan
from graphkin.training.threads import spinning


def fit(
    data: GraphLike,
    method: str | Method | None = None,
    *,
    preset: str | Path | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: str | bool = "auto",
    features: str | None = None,
    similarity: Any = None,
    memory: str | int | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 50,
    **settings: Any,
) -> Fitted:
    """Train ``method`` on a graph.

    Args:
        data: a :class:`graphkin.Graph`, a dataset's name, a path, a NetworkX graph, a ``torch_geometric.data.Data``, DataFrames
            ``(edges, nodes)``, or a SciPy matrix with features ``(adjacency, x)``.
        method: one of :data:`graphkin.METHODS`, such as "grace+" or "bgrl"; or a :class:`graphkin.Method`. The default
            is the method of a ``preset`` file, or "kin".
        preset: the dataset whose shipped settings to use; by default the graph's own name if it is one of them, and settings
            meant for any graph otherwise. Or a settings file (.toml), such as :func:`graphkin.tune` writes.
        seed: the seed for all randomness. The same seed gives the same embeddings, bit for bit, on one CPU.
        device: "auto", "cpu", "cuda" or "cuda:N".
        progress: show the plan and the progress of training. True: a bar on a terminal, lines elsewhere; False: nothing.
            "auto" is True on a terminal and in a notebook; elsewhere both go to ``logging.getLogger("graphkin")``. Or "bar",
            "lines", "log".
        features: make features from the edges, "degree" or "positional", if the graph has none.
        similarity: for a "+" method, your own node similarity instead of the method's: an N×N matrix (dense or sparse), or a
            function from node indices [B] to similarities [B, N].
        memory: how much to use at most, such as "8GiB"; by default what the device has. If a graph is too large to compare all
            pairs of nodes, training works in another way; a warning then says how, and so does ``Fitted.execution``.
        checkpoint: a file that is written every ``checkpoint_every`` epochs and after the last one; if it exists already,
            training resumes from it. On one CPU the result is the same, bit for bit, as without the interruption. Remove it
            yourself, and the folder next to it with the PageRanks of ``top_k``, if there is one.
        **settings: any setting by its name, such as ``epochs``, ``tau``, ``beta`` or ``tau_pos``.

    Ctrl-C ends training after the current epoch and keeps what was learned.
    """
    (seed,) = _checked_seeds([seed])
    checkpoint = None if checkpoint is None else checked_path(checkpoint)
    how: dict[str, Any] = {"preset": preset, "device": device, "similarity": similarity, "memory": memory, "features": features}
    planned = _told(plan(data, method, **how, **settings))
    if peers().first:
        notes = "; ".join(planned.graph.notes)
        tell(progress, [*([f"graph: {notes}"] if notes else []), *planned.lines()])
    return planned.fit(seed, progress, checkpoint, checkpoint_every)


def fit_repeats(
    data: GraphLike,
    method: str | Method | None = None,
    seeds: Iterable[int] = range(10),
    *,
    preset: str | Path | None = None,
    device: str = "auto",
    progress: str | bool = "auto",
    similarity: Any = None,
    **settings: Any,
) -> list[Fitted]:
    """Run :func:`fit` with each of ``seeds``, faster than one by one: similarity and weights are computed once, and a GPU
    trains several repeats at a time where their steps are small.

    After Ctrl-C the repeats that had begun are returned.
    """
    seeds = _checked_seeds(seeds)
    planned = _told(plan(data, method, preset=preset, device=device, similarity=similarity, **settings))
    prepared = planned.prepare()
    fitted: list[Fitted] = []
    for group in prepared.groups(seeds):
        title = planned.title
        if len(seeds) > 1:
            title += f", {len(fitted) + len(group)} of {len(seeds)} seeds"
        try:
            trained = prepared.train(group, progress, title)
        except KeyboardInterrupt:  # between two groups, or pressed twice
            if not fitted:
                raise
            break
        fitted += trained.fitted
        if trained.stop_wanted:
            break
    return fitted


def _told(planned: Plan) -> Plan:
    """Say it where the algorithm is another than the one that was asked for, and where threads are in the way of others."""
    for warning in (planned.execution.change, spinning() if planned.device.type == "cpu" else None):
        if warning is not None and peers().first:
            warnings.warn(f"{planned.title}: {warning}", stacklevel=3)
    return planned


def _checked_seeds(seeds: Any) -> list[int]:
    if isinstance(seeds, str) or not isinstance(seeds, Iterable):
        raise SettingError(f"seeds must be a list of whole numbers, found {seeds!r}.")
    listed = list(seeds)
    if not listed:
        raise SettingError("seeds must name at least one seed, found none.")
    for seed in listed:
        check_whole("seed", seed, at_least=0)
    return [int(seed) for seed in listed]
