"""One seed, several independent streams: nothing here touches the global random state."""

from __future__ import annotations

import zlib

import numpy as np
import torch

from graphkin.errors import check_whole


def generator(seed: int, purpose: str, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator that depends on ``seed`` and ``purpose`` only.

    Methods that share a purpose share its stream: GRACE and GRACE+ with one seed start from the same parameters
    and see the same views, so that they can be compared pair by pair.
    """
    check_whole("seed", seed, at_least=0)
    words = np.random.SeedSequence([seed, zlib.crc32(purpose.encode())]).generate_state(2, np.uint32)
    return torch.Generator(device).manual_seed(int(words[0]) << 31 | int(words[1]) >> 1)
