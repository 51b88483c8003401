"""The encoder of ``kin``: networks side by side on differently smoothed features, with the smoothed features beside them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from graphkin.errors import SettingError, check_choice, check_flag, check_range, check_whole, shown
from graphkin.graphs.arrays import Features
from graphkin.graphs.diffusion import NARROWEST
from graphkin.graphs.graph import Graph
from graphkin.models.encoders.branches_module import AVERAGED, SAMPLE, BranchesEncoder, parts_of
from graphkin.models.layers import NORMS
from graphkin.models.pieces import (
    FEATURES,
    SMALLEST_RESTART,
    Pieces,
    basis_of,
    check_piece,
    column_statistics,
    mean_length,
    pieces_of,
    stored_as,
    width_of_piece,
)
from graphkin.support.components import LATER, register
from graphkin.support.parallel import ALONE, Peers

MOST_HOPS = 99
"""over which outputs are averaged"""


@register("Branches")
@dataclass(frozen=True)
class Branches:
    """Branches, and ``free`` parts that need no training, compressed to ``width`` dimensions.

    A branch is a network of two layers (``hidden``, ``branch_width``) with ``dropout`` and a ``norm`` (none, layer, batch).
    "hop1+hop2" is a branch that takes Âx and Â²x side by side; :mod:`graphkin.models.pieces` names what there is. In training
    the branches see rows of nodes and no edges. With ``smooth_outputs``, what a branch on x alone gives is also averaged over
    neighbours; with ``diffuse_outputs`` above 0, what every branch gives is also diffused by PageRank with this restart
    probability. The branches as they were after ``early`` epochs stay beside those of the end: long training, which some graphs
    need, takes from others what they had early.

    With ``smooth_hops`` above 0, a quarter of the learned dimensions are the leading ones, averaged so often over
    neighbours.

    "hop2*0.4" among ``free`` counts Â²x with weight 0.4. Branches and free parts have half of the width each, both along their
    principal axes. ``axes`` is how many features are smoothed at most; more are first reduced to this many axes.

    Rows of features have length 1. Up to ``few_features`` keep their lengths, which say much where there are few; the branches
    then have at most twice the dimensions of the free parts. With ``standardised``, so few features are standardised column by
    column after they are smoothed: what many hops leave of them differs little from node to node.
    """

    branches: tuple[str, ...] = (FEATURES, "ppr0.1", "x+hop1+hop2")
    free: tuple[str, ...] = ("x*0.2", "hop1*0.4", "hop2", "ppr0.05", "ppr0.2*0.4")
    width: int = 512
    hidden: int = 512
    branch_width: int = 256
    dropout: float = 0.6
    norm: str = "layer"
    smooth_outputs: bool = True
    early: int = 100
    axes: int = 512
    few_features: int = 50
    diffuse_outputs: float = 0.0
    smooth_hops: int = field(default=0, metadata=LATER)
    standardised: bool = field(default=False, metadata=LATER)

    takes_sparse: ClassVar[bool] = True
    recordable: ClassVar[bool] = True
    sees_edges: ClassVar[bool] = False

    @property
    def shares_rows(self) -> bool:
        """Batch norm needs all rows of a step at once."""
        return self.norm != "batch"

    def __post_init__(self) -> None:
        for name in ("branches", "free"):
            found = getattr(self, name)
            if not isinstance(found, tuple) or not all(isinstance(entry, str) for entry in found):
                raise SettingError(f"{name} must be names of smoothed features, found {shown(found)}.")
        for name in self.pieces:
            check_piece(name)
        if not self.branches and not self.free:
            raise SettingError("branches and free must not both be empty.")
        for name in ("width", "hidden", "branch_width", "axes"):
            check_whole(name, getattr(self, name), at_least=2, at_most=2**16)
        check_range("dropout", self.dropout, at_least=0, below=1)
        check_choice("norm", self.norm, NORMS)
        for name in ("smooth_outputs", "standardised"):
            check_flag(name, getattr(self, name))
        if self.diffuse_outputs != 0:
            check_range("diffuse_outputs", self.diffuse_outputs, at_least=SMALLEST_RESTART, at_most=1)
        for name in ("early", "few_features"):
            check_whole(name, getattr(self, name), at_least=0)
        check_whole("smooth_hops", self.smooth_hops, at_least=0, at_most=MOST_HOPS)

    @property
    def weighted(self) -> list[tuple[str, float]]:
        """The free parts with their weights."""
        return [_weighted(text) for text in self.free]

    @property
    def pieces(self) -> set[str]:
        """All that is taken, by name."""
        return {part for branch in self.branches for part in parts_of(branch)} | {name for name, _ in self.weighted}

    @property
    def smoothed(self) -> list[int]:
        """The branches whose output is averaged over neighbours, too."""
        return [place for place, branch in enumerate(self.branches) if self.smooth_outputs and branch == FEATURES]

    @property
    def blocks(self) -> int:
        """What stands side by side after training, for early and for late branches each."""
        return len(self.branches) * (2 if self.diffuse_outputs else 1) + len(self.smoothed)

    def trained_widths(self) -> tuple[int, ...]:
        """The blocks of what it gives in training, each of which is contrasted alone."""
        return (self.branch_width,) * len(self.branches)

    def parts_width(self, num_features: int) -> tuple[int, int]:
        """Dimensions of branches and of free parts in an embedding."""
        learned, free = self.whole_width(num_features)
        kept = min(free, self.width // 2 if self.branches else self.width)
        if self._are_few(num_features) and free:
            learned = min(learned, 2 * free)
        return min(learned, self.width - kept), kept

    def whole_width(self, num_features: int) -> tuple[int, int]:
        """The same before they are compressed."""
        free = sum(width_of_piece(name, num_features, self.axes) for name, _ in self.weighted)
        return 2 * self.branch_width * self.blocks, free

    def width_for(self, num_features: int) -> int:
        return sum(self.parts_width(num_features))

    def learn(self, graph: Graph, x: Features) -> dict[str, Tensor]:
        """What all runs on a graph share: the axes that features are turned to, or the lengths and columns of few features."""
        if self._are_few(x.shape[1]):
            length = mean_length(x)
            if not self.standardised:
                return {"length": length}
            centre, scale = column_statistics(graph, x, self.pieces, length)
            return {"length": length, "centre": centre, "scale": scale}
        return {"basis": basis_of(graph, x, self.axes)} if self._turns(x.shape[1]) else {}

    def inputs(self, graph: Graph, x: Features, learned: dict[str, Tensor], among: Peers = ALONE) -> Pieces:
        """The rows that branches and free parts take; of several processes ``among`` each has its share of them."""
        return pieces_of(graph, x, self.pieces, **learned, among=among)

    def build(self, num_features: int, generator: torch.Generator) -> BranchesEncoder:
        return BranchesEncoder(self, num_features, generator)

    def memory(self, nodes: int, edges: int) -> int:
        """Bytes of two views in a step, besides features and parameters."""
        return 20 * 4 * nodes * (self.hidden + self.branch_width) * len(self.branches)

    def inputs_memory(self, nodes: int, num_features: int, processes: int = 1) -> int:
        """Bytes of the smoothed features, of axes before they are smoothed, and of the columns that are at work."""
        turned = 4 * nodes * self.axes if self._turns(num_features) else 0
        return self._smoothed_bytes(nodes, num_features, processes) + turned + 8 * 4 * nodes * NARROWEST

    def embedding_memory(self, nodes: int, num_features: int, processes: int = 1) -> int:
        """Bytes of the smoothed features, of averaged outputs, of the rows from which axes are found, and of columns at work.

        With ``smooth_hops``, of the learned part of all rows too.

        The embeddings are not among them: they go to their file in blocks.
        """
        bytes_of_row, held = stored_as(nodes * self.branch_width).itemsize * self.branch_width, -(-nodes // processes)
        averaged = bytes_of_row * (2 * (self.blocks - len(self.branches)) * held + (nodes if processes == 1 else 2 * nodes))
        rows = 4 * min(nodes, SAMPLE) * 3 * max(self.whole_width(num_features))
        if self.smooth_hops:
            learned = self.parts_width(num_features)[0]
            gathered = 0 if processes == 1 else nodes * (learned // AVERAGED)
            rows += stored_as(nodes * (learned - learned // AVERAGED)).itemsize * (held * learned + gathered)
        return self._smoothed_bytes(nodes, num_features, processes) + averaged + rows + 3 * 4 * nodes * NARROWEST

    def inputs_in_files(self, nodes: int, num_features: int, processes: int = 1) -> int:
        """Bytes of what :meth:`inputs` gives that files can hold (:mod:`graphkin.support.mapped`)."""
        return self._smoothed_bytes(nodes, num_features, processes)

    def _smoothed_bytes(self, nodes: int, num_features: int, processes: int) -> int:
        width = min(num_features, self.axes)
        kept = torch.float32 if self.standardised and self._are_few(num_features) else stored_as(nodes * width)
        return kept.itemsize * -(-nodes // processes) * width * len(self.pieces - {FEATURES})

    def parameter_bytes(self, num_features: int) -> int:
        """Bytes of branches and axes."""
        inputs = sum(width_of_piece(part, num_features, self.axes) for branch in self.branches for part in parts_of(branch))
        branches = 2 * self.hidden * (inputs + self.branch_width * len(self.branches))
        whole, kept = self.whole_width(num_features), self.parts_width(num_features)
        found = num_features * self.axes if self._turns(num_features) else 0
        if self.standardised and self._are_few(num_features):
            found = 2 * len(self.pieces) * num_features
        return 4 * (branches + found + whole[0] * kept[0] + whole[1] * kept[1])

    def learned_shapes(self, num_features: int) -> dict[str, tuple[int, ...]]:
        """Of what :meth:`learn` gives."""
        if self._are_few(num_features):
            columns = (len(self.pieces), num_features)
            return {"length": (1,), **({"centre": columns, "scale": columns} if self.standardised else {})}
        return {"basis": (num_features, self.axes)} if self._turns(num_features) else {}

    def _are_few(self, num_features: int) -> bool:
        return num_features <= min(self.few_features, self.axes)

    def _turns(self, num_features: int) -> bool:
        return num_features > self.axes


def _weighted(text: str) -> tuple[str, float]:
    name, star, weight = text.partition("*")
    try:
        number = float(weight) if star else 1.0
    except ValueError:
        number = 0.0
    if not 0 < number < 1e6:
        raise SettingError(f"the weight of {name} must be a number above 0, found {weight!r}.")
    return name, number
