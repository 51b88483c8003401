"""Texts by what they say, not by how they say it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from graphkin.errors import InputError


@contextmanager
def refused(kind: type[InputError], *facts: object) -> Iterator[Callable[[], str]]:
    """An error of this kind, of one line, that names every fact: a setting, the value found, what is allowed.

    Gives a function that tells the whole message afterwards.
    """
    with pytest.raises(kind) as raised:
        yield lambda: str(raised.value)
    said = str(raised.value)
    assert "\n" not in said
    missing = [str(fact) for fact in facts if str(fact) not in said]
    assert not missing, f"{missing} not in: {said}"


def told(text: str, *facts: object) -> bool:
    """Whether a text names these facts in this order."""
    place = 0
    for fact in map(str, facts):
        found = text.find(fact, place)
        assert found >= 0, f"{fact!r} not in: {text[place : place + 500]}"
        place = found + len(fact)
    return True
