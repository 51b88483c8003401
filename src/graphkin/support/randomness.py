"""One seed, several independent streams: nothing here touches the global random state."""

from __future__ import annotations

import zlib

import numpy as np
import torch
from torch import Tensor

from graphkin.errors import check_whole

MANY = 64
"""times as many numbers as are drawn of them: so many that none is likely to come twice"""


def generator(seed: int, purpose: str, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator that depends on ``seed`` and ``purpose`` only.

    Methods that share a purpose share its stream: GRACE and GRACE+ with one seed start from the same parameters
    and see the same views, so that they can be compared pair by pair.
    """
    check_whole("seed", seed, at_least=0)
    words = np.random.SeedSequence([seed, zlib.crc32(purpose.encode())]).generate_state(2, np.uint32)
    return torch.Generator(device).manual_seed(int(words[0]) << 31 | int(words[1]) >> 1)


def random_key(source: torch.Generator) -> Tensor:
    """A random number from which :func:`chances` derives others."""
    return torch.randint(2**62, (1,), generator=source, device=source.device)


def chances(key: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """A number in [0, 1) for every pair of a row and a column, in float64.

    It depends only on the key and the pair (SplitMix64 as a hash), so a process that knows some of the rows draws the same
    numbers for them as one that knows all. ``rows`` and ``columns`` are broadcast.
    """
    bits = _mixed(_mixed(key + rows * _GOLDEN) + columns * _GOLDEN)
    return (bits >> 11 & 2**53 - 1).double() * 2.0**-53


def some_of(total: int, count: int, source: torch.Generator) -> Tensor:
    """``count`` different numbers below ``total`` in random order; of many on a CPU, those that come first among more draws."""
    if source.device.type != "cpu" or total < MANY * count:
        return torch.randperm(total, generator=source, device=source.device)[:count]
    drawn = torch.randint(total, (2 * count,), generator=source)
    _, first = np.unique(drawn.numpy(), return_index=True)
    chosen = drawn[np.sort(first)[:count]]
    return chosen if len(chosen) == count else some_of(total, count, source)


def kept(shape: torch.Size, rate: float, source: torch.Generator | None, device: torch.device) -> Tensor:
    """Flags, each of them false with the chance ``rate``; on a CPU with that chance to 16 bits, four from one random number."""
    if device.type != "cpu":
        return torch.rand(shape, generator=source, device=device) >= rate
    count = shape.numel()
    bits = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None, generator=source).view(torch.int16)
    return (bits[:count] >= min(round(rate * 2**16), 2**16 - 1) - 2**15).view(shape)


_GOLDEN, _FIRST, _SECOND = (constant - 2**64 for constant in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def _mixed(bits: Tensor) -> Tensor:
    bits = (bits ^ (bits >> 30 & 2**34 - 1)) * _FIRST
    bits = (bits ^ (bits >> 27 & 2**37 - 1)) * _SECOND
    return bits ^ (bits >> 31 & 2**33 - 1)
