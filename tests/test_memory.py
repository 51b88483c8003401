"""Memory that is free goes back to the system."""

from __future__ import annotations

import sys

import pytest

from graphkin.support import memory
from graphkin.support.memory import give_back

KEPT = 100
"""one of so many blocks stays in use"""


@pytest.mark.skipif(sys.platform != "linux", reason="this is about glibc")
def test_free_memory_between_blocks_in_use_goes_back() -> None:
    give_back()
    blocks = [bytearray(100_000) for _ in range(2000)]
    in_use = blocks[::KEPT]
    blocks.clear()
    free = memory._resident()
    give_back()
    assert memory._resident() < free - 150_000_000
    assert len(in_use) == 2000 // KEPT


def test_other_libraries_have_no_such_function(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str | None) -> object:
        return object()

    monkeypatch.setattr("ctypes.CDLL", missing)
    memory._trim.cache_clear()
    try:
        assert memory._trim() is None
        give_back()
    finally:
        memory._trim.cache_clear()
