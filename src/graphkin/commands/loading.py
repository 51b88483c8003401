"""The libraries that a command needs, imported when it is called, so that help and version do not wait for them."""

from __future__ import annotations

import importlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from graphkin.errors import InputError, first_line

WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


def loaded(place: str) -> Callable[..., Any]:
    """The function ``module:name``."""
    module, _, name = place.partition(":")
    with loading():
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


@contextmanager
def loading() -> Iterator[None]:
    """While libraries are imported, a signal ends the program at once, and a library that cannot be loaded is one line."""
    try:
        with _left_at_once():
            yield
    except (ImportError, MemoryError, OSError, SystemError) as error:
        raise InputError(
            f"graphkin cannot start, because a library it needs cannot be loaded ({first_line(error)}): is there enough memory?"
        ) from error


@contextmanager
def _left_at_once() -> Iterator[None]:
    """There is nothing to lose yet, and an exception inside an import could end up anywhere."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in WORDS}
    watched = {number: handler for number, handler in before.items() if callable(handler)}
    for number in watched:
        signal.signal(number, _leave)
    try:
        yield
    finally:
        for number, handler in watched.items():
            signal.signal(number, handler)


def _leave(number: int, frame: object) -> None:
    os.write(2, f"graphkin: {WORDS[signal.Signals(number)]} before the end.\n".encode())
    os._exit(128 + number)
