"""The module of :class:`~graphkin.models.encoders.branches.Branches`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphkin.graphs.diffusion import pagerank_diffusion
from graphkin.models.branch import Branch
from graphkin.models.columns import in_columns
from graphkin.models.layers import exact
from graphkin.models.noise import Noise
from graphkin.models.pieces import Pieces, some_rows, stored_as, width_of_piece
from graphkin.models.views import View
from graphkin.support.axes import principal_axes
from graphkin.support.memory import give_back
from graphkin.support.products import multiplies_bf16_fast, products_in, times
from graphkin.support.randomness import generator as source_of
from graphkin.support.sparse import SparseMatrix

if TYPE_CHECKING:
    from graphkin.models.encoders.branches import Branches

SAMPLE = 16_384
"""nodes from which the axes of an embedding are found"""
ROWS = 8192
"""nodes that are embedded at a time"""
AVERAGED = 4
"""With ``smooth_hops``, one of so many learned dimensions is an average over neighbours."""


class BranchesEncoder(nn.Module):
    """In training, branches side by side. :meth:`settle` then finds the axes, and :meth:`embed` gives embeddings."""

    steps: Tensor
    learned_axes: Tensor
    free_axes: Tensor

    def __init__(self, settings: Branches, num_features: int, generator: torch.Generator) -> None:
        super().__init__()
        self.settings = settings

        def branch(name: str) -> Branch:
            inputs = [width_of_piece(part, num_features, settings.axes) for part in parts_of(name)]
            return Branch(inputs, settings.hidden, settings.branch_width, settings.dropout, settings.norm, generator)

        self.late = nn.ModuleList([branch(name) for name in settings.branches])
        self.early = copy.deepcopy(self.late).requires_grad_(False)
        learned, free = settings.parts_width(num_features)
        learned_from, free_from = settings.whole_width(num_features)
        self.register_buffer("steps", torch.zeros((), dtype=torch.float32))
        self.taken: int | None = None
        self.found = settings.learned_shapes(num_features)
        for name, shape in self.found.items():
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float32))
        self.register_buffer("learned_axes", torch.zeros(learned_from, learned, dtype=torch.float32))
        self.register_buffer("free_axes", torch.zeros(free_from, free, dtype=torch.float32))

    def forward(self, x: Pieces, view: View, generator: Noise | None = None) -> Tensor:
        return torch.cat(self._outputs(self.late, x, generator), dim=1)

    @torch.no_grad()
    def after_step(self) -> None:
        """Keep the branches of the first ``early`` steps. Only the first call waits for the device."""
        self.taken = (int(self.steps) if self.taken is None else self.taken) + 1
        self.steps.fill_(self.taken)
        if self.taken <= self.settings.early:
            for kept, now in zip(self.early.state_dict().values(), self.late.state_dict().values(), strict=True):
                kept.copy_(now)

    def learned(self) -> dict[str, Tensor]:
        return {name: self.get_buffer(name) for name in self.found}

    @torch.no_grad()
    def settle(self, x: Pieces, view: View) -> None:
        """Find the axes of this graph's embeddings from some of its nodes."""
        self.eval()
        nodes = torch.arange(x.nodes, device=x.device)
        if x.nodes > SAMPLE:
            nodes = torch.randperm(x.nodes, generator=source_of(0, "axes"))[:SAMPLE].sort().values.to(x.device)
        smoothed = self._smoothed(x, view)
        for axes, rows in (
            (self.learned_axes, lambda some: self._learned_rows(x, smoothed, some)),
            (self.free_axes, lambda some: self._free_rows(x, some)),
        ):
            if axes.numel():
                with self._products(x):
                    gram = _gram(rows, axes.size(0), x, nodes)
                found = principal_axes(gram, axes.size(0), axes.size(1), axes.device)
                axes.copy_(x.among.broadcast(found, rank=0))

    def embed(self, x: Pieces, view: View) -> Tensor:
        """Branches and free parts along their axes, each of length 1 unless features keep theirs."""
        return torch.cat(list(self.embed_in_blocks(x, view)))

    @torch.no_grad()
    def embed_in_blocks(self, x: Pieces, view: View) -> Iterator[Tensor]:
        """The rows of :meth:`embed` in their order, some at a time. Processes that share them take all of them together."""
        learned, among = self._learned_part(x, view), x.among
        mine = (self._embedded(x, learned, some) for some in torch.arange(len(x), device=x.device).split(ROWS))
        if among.size == 1:
            yield from mine
            return
        width, computed = self.learned_axes.size(1) + self.free_axes.size(1), torch.cat(list(mine))
        for rank in range(among.size):
            first, last = among.bounds(x.nodes, rank)
            rows = computed if rank == among.rank else computed.new_empty(last - first, width)
            yield from (among.broadcast(some, rank) for some in rows.split(ROWS))

    def _embedded(self, x: Pieces, learned: Callable[[Tensor], Tensor] | None, some: Tensor) -> Tensor:
        with self._products(x):
            halves = [] if learned is None else [learned(some)]
            if self.free_axes.numel():
                free = times(self._free_rows(x, some), self.free_axes)
                halves.append(free if "length" in self.found else F.normalize(free, dim=1))
        return torch.cat(halves, dim=1)

    def _products(self, x: Pieces) -> AbstractContextManager[None]:
        """Embeddings are multiplied in bf16 where features are kept in it and a CPU is fast at it."""
        rounded = stored_as(x.nodes * self.settings.branch_width) == torch.bfloat16 and multiplies_bf16_fast(x.device)
        return products_in("bf16" if rounded else "float32", x.device)

    def _learned_part(self, x: Pieces, view: View) -> Callable[[Tensor], Tensor] | None:
        """What branches give along their axes, at some places: the last quarter of the columns averaged over several hops."""
        if not self.learned_axes.numel():
            return None
        smoothed, width = self._smoothed(x, view), self.learned_axes.size(1)
        averaged = width // AVERAGED if self.settings.smooth_hops else 0
        axes = self.learned_axes[:, : width - averaged]

        def along_axes(some: Tensor) -> Tensor:
            return times(self._learned_rows(x, smoothed, some), axes)

        if not averaged:
            return lambda some: F.normalize(along_axes(some), dim=1)
        plain = torch.empty(len(x), axes.size(1), dtype=stored_as(x.nodes * axes.size(1)), device=x.device)
        leading = torch.empty(len(x), averaged, dtype=plain.dtype, device=x.device)
        for some in torch.arange(len(x), device=x.device).split(ROWS):
            with self._products(x):
                rows = along_axes(some)
            plain[some], leading[some] = rows.to(plain.dtype), F.normalize(rows[:, :averaged], dim=1).to(plain.dtype)

        adjacency = view.adjacency.short()

        def average(block: Tensor) -> Tensor:
            for _ in range(self.settings.smooth_hops):
                block = adjacency @ block
            return block

        parts = plain, in_columns(average, x.among.gather(leading, x.nodes), x.among)
        return lambda some: torch.cat([F.normalize(part[some].float(), dim=1) for part in parts], dim=1) / 2**0.5

    def _outputs(self, branches: nn.ModuleList, x: Pieces, noise: Noise | None = None) -> list[Tensor]:
        named = zip(branches, self.settings.branches, strict=True)
        return [branch([x[part] for part in parts_of(name)], noise) for branch, name in named]

    def _smoothed(self, x: Pieces, view: View) -> list[list[Tensor]]:
        """For early and late branches, the outputs of length 1 that are averaged over neighbours, [rows, branch_width] each."""
        restart, found = self.settings.diffuse_outputs, []
        adjacency = view.adjacency.short()

        def average(block: Tensor) -> Tensor:
            return adjacency @ block

        def diffuse(block: Tensor) -> Tensor:
            return pagerank_diffusion(adjacency, block, restart)

        for branches in (self.early, self.late):
            outputs: list[Tensor] = []
            for place, branch in enumerate(branches):
                ways = [average] * (place in self.settings.smoothed) + [diffuse] * (restart > 0)
                if ways:
                    unit = x.among.gather(self._unit_outputs(branch, self.settings.branches[place], x), x.nodes)
                    outputs += [in_columns(way, unit if way is ways[-1] else unit.clone(), x.among) for way in ways]
            found.append(outputs)
        give_back()
        return found

    def _unit_outputs(self, branch: nn.Module, name: str, x: Pieces) -> Tensor:
        width = self.settings.branch_width
        found = torch.empty(len(x), width, dtype=stored_as(x.nodes * width), device=x.device)
        for some in torch.arange(len(x), device=x.device).split(ROWS):
            with self._products(x):
                output = branch([some_rows(x[part], some) for part in parts_of(name)])
            found[some] = F.normalize(output, dim=1).to(found.dtype)
        return found

    def _learned_rows(self, x: Pieces, smoothed: list[list[Tensor]], some: Tensor) -> Tensor:
        rows = x.some_rows(some)
        stages = []
        for branches, averaged in zip((self.early, self.late), smoothed, strict=True):
            blocks = [*self._outputs(branches, rows), *(block[some].float() for block in averaged)]
            stages.append(torch.cat([F.normalize(block, dim=1) for block in blocks], dim=1))
        return torch.cat(stages, dim=1)

    def _free_rows(self, x: Pieces, some: Tensor) -> Tensor:
        parts = [(weight, exact(some_rows(x[name], some))) for name, weight in self.settings.weighted]
        return torch.cat(
            [weight * (rows.to_dense() if isinstance(rows, SparseMatrix) else rows) for weight, rows in parts], dim=1
        )


def _gram(rows: Callable[[Tensor], Tensor], width: int, x: Pieces, nodes: Tensor) -> Callable[[Tensor], Tensor]:
    """The product with a sample and its transpose, from the rows of the sample that each process holds."""
    places = nodes[x.holds(nodes)] - x.first
    sample = torch.empty(len(places), width, device=x.device)
    for some, found in zip(places.split(ROWS), sample.split(ROWS), strict=True):
        found.copy_(rows(some))

    def gram(directions: Tensor) -> Tensor:
        product = sample.T @ (sample @ directions)
        x.among.add_up([product])
        return product

    return gram


def parts_of(branch: str) -> Sequence[str]:
    return branch.split("+")
