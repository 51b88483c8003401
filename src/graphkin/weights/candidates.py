"""The nodes that an anchor is compared with: all of them, or a sample."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from graphkin.errors import SettingError


class Candidates(NamedTuple):
    """The sampled nodes.

    ``columns`` is V_M ∪ V_N in increasing order. The masks [columns] say which of them are in V_M and in V_N (None: all are).
    With ``log_factors`` [columns] the nodes stand for all nodes of the graph, each for e^factor of them: sums over the sample
    are then estimates of sums over V (:mod:`graphkin.weights.sampling`).
    """

    columns: Tensor
    positive: Tensor | None = None
    negative: Tensor | None = None
    log_factors: Tensor | None = None

    @staticmethod
    def draw(num_nodes: int, positives: int | None, negatives: int | None, generator: torch.Generator) -> Candidates:
        """V_M and V_N of the given sizes (None: all nodes), uniformly and independently of each other."""
        masks = []
        for name, size in (("positives", positives), ("negatives", negatives)):
            if size is not None and not 1 <= size <= num_nodes:
                raise SettingError(f"{name} must be between 1 and the number of nodes ({num_nodes}), found {size}.")
            mask = torch.ones(num_nodes, dtype=torch.bool, device=generator.device)
            if size is not None:
                order = torch.randperm(num_nodes, generator=generator, device=generator.device)
                mask[order[size:]] = False
            masks.append(mask)
        columns = (masks[0] | masks[1]).nonzero()[:, 0]
        return Candidates(columns, masks[0][columns], masks[1][columns])

    @property
    def stand_for_all(self) -> bool:
        return self.log_factors is not None

    def excluded_positives(self, rows: Tensor) -> Tensor:
        """The pairs [rows, columns] that are never positives: a node with itself, and whatever is outside V_M."""
        return self._excluded(rows, self.positive)

    def excluded_negatives(self, rows: Tensor) -> Tensor:
        """The pairs [rows, columns] that are never negatives: a node with itself, and whatever is outside V_N."""
        return self._excluded(rows, self.negative)

    def _excluded(self, rows: Tensor, members: Tensor | None) -> Tensor:
        own = rows[:, None] == self.columns
        return own if members is None else own | ~members

    def counted(self, log_weights: Tensor) -> Tensor:
        """Logarithms of weights [B, columns], each times the number of nodes that its candidate stands for."""
        return log_weights if self.log_factors is None else log_weights + self.log_factors.to(log_weights)

    def factors(self, like: Tensor) -> Tensor:
        """How many nodes each candidate stands for [columns]."""
        if self.log_factors is None:
            return torch.ones_like(self.columns, dtype=like.dtype)
        return self.log_factors.to(like).exp()
