"""Noise in training, and that of the rows which one of several processes encodes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphkin.graphs.arrays import Features
from graphkin.support.randomness import kept
from graphkin.support.sparse import SparseMatrix


@dataclass(frozen=True)
class NoiseOfRows:
    """A source of noise for some rows of a step. It draws for all of them, so that all processes draw the same numbers."""

    source: torch.Generator
    here: Tensor
    """for every row of the step, whether this process encodes it"""
    lengths: Tensor | None = None
    """for every row of the step, how many values it has in sparse features"""


Noise = torch.Generator | NoiseOfRows


def kept_entries(x: Features, rate: float, noise: Noise | None) -> Tensor:
    """Flags for entries, of sparse features for those stored, each of them false with the chance ``rate``."""
    values = x.values if isinstance(x, SparseMatrix) else x
    if not isinstance(noise, NoiseOfRows):
        return kept(values.shape, rate, noise, values.device)
    here, shape = noise.here, (len(noise.here), *values.shape[1:])
    if isinstance(x, SparseMatrix):
        assert noise.lengths is not None
        here = here.repeat_interleave(noise.lengths)
        shape = (len(here),)
    return kept(torch.Size(shape), rate, noise.source, values.device)[here]
