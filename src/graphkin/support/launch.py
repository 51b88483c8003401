"""What torchrun says of this process. No PyTorch here: a command asks before it knows whether it needs any."""

from __future__ import annotations

import os
from dataclasses import dataclass

from graphkin.errors import SettingError

NAMES = {"rank": "RANK", "size": "WORLD_SIZE", "local_rank": "LOCAL_RANK", "local_size": "LOCAL_WORLD_SIZE"}


class LostError(Exception):
    """Another process ended or cannot be reached."""


class ToldElsewhereError(Exception):
    """Another process tells the user what is wrong."""


@dataclass(frozen=True)
class Place:
    """One process among those that were started together."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    """Processes on this machine."""

    @property
    def first(self) -> bool:
        """Whether this is the process that prints and writes."""
        return self.rank == 0

    @property
    def label(self) -> str:
        """Part of the name of what this process stores on disk."""
        return f"{self.rank + 1}-of-{self.size}"

    def bounds(self, total: int, rank: int | None = None) -> tuple[int, int]:
        """The share of a process, of ``total`` rows in their order, as first and last + 1; this one's by default."""
        place, (each, more) = self.rank if rank is None else rank, divmod(total, self.size)
        return place * each + min(place, more), (place + 1) * each + min(place + 1, more)


def launched() -> Place:
    """By the environment variables that torchrun, or whoever stands in for it, sets."""
    if any(os.environ.get(name) is None for name in (*NAMES.values(), "MASTER_ADDR", "MASTER_PORT")):
        return Place()
    found = {name: _whole(variable) for name, variable in NAMES.items()}
    if not 0 < _port() < 2**16:
        raise SettingError(
            f"the environment variable MASTER_PORT must be a port, 1 to 65535, found {os.environ['MASTER_PORT']!r}."
        )
    for name, of in (("rank", "size"), ("local_rank", "local_size")):
        if found[name] >= found[of] > 0:
            raise SettingError(
                f"the environment variable {NAMES[name]} must be below {NAMES[of]}, found {found[name]} and {found[of]}."
            )
    return Place(**found) if found["size"] > 1 else Place()


def _whole(variable: str) -> int:
    text = os.environ[variable]
    if not text.isdecimal():
        raise SettingError(f"the environment variable {variable} must be a whole number, found {text!r}.")
    return int(text)


def _port() -> int:
    """0, which is no port, for what is no number."""
    text = os.environ["MASTER_PORT"]
    return int(text) if text.isdecimal() else 0
