"""Ctrl-C and SIGTERM: training stops after the current epoch, and what was learned is kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
"""The exit status after Ctrl-C and after SIGTERM."""

_terminated = False
_outer_stop = False


class TerminatedError(KeyboardInterrupt):
    """SIGTERM ends a command as Ctrl-C does."""


class EndedError(Exception):
    """A signal, or a reader that closed the output, has ended a command; the cause says which."""


@contextmanager
def sigterm_obeyed() -> Iterator[None]:
    """For a program of our own, in its main thread: SIGTERM interrupts, or stops training after the current epoch.

    Without this, as in a user's own program, SIGTERM does what it did before.
    """
    global _terminated
    _terminated = False
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def terminated() -> bool:
    """Whether SIGTERM has arrived. There may be only seconds left, so write only what must be kept."""
    return _terminated


def status() -> int:
    return TERMINATED if _terminated else INTERRUPTED


@contextmanager
def stop_after_epoch(*, several_processes: bool = False) -> Iterator[threading.Event]:
    """The first signal sets the event, the second interrupts as usual; signals reach the main thread only.

    ``several_processes`` stop together, and torchrun may send them a signal more than once.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread() or _outer_stop:
        yield stop
        return
    watched = [signal.SIGINT]
    if signal.getsignal(signal.SIGTERM) is _terminate:
        watched.append(signal.SIGTERM)
    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in watched}

    def request_stop(number: int, frame: FrameType | None) -> None:
        global _terminated
        _terminated = _terminated or number == signal.SIGTERM
        stop.set()
        if not several_processes:
            signal.signal(number, before[signal.Signals(number)])

    for number in watched:
        signal.signal(number, request_stop)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stop_after_trial() -> Iterator[threading.Event]:
    """The first Ctrl-C sets the event, and what is trained inside goes on to its last epoch; the second interrupts as usual.

    SIGTERM is not waited for: there may be only seconds left.
    """
    global _outer_stop
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.getsignal(signal.SIGINT) or signal.SIG_DFL

    def request_stop(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before)

    signal.signal(signal.SIGINT, request_stop)
    _outer_stop = True
    try:
        yield stop
    finally:
        _outer_stop = False
        signal.signal(signal.SIGINT, before)


def _terminate(number: int, frame: FrameType | None) -> None:
    global _terminated
    _terminated = True
    raise TerminatedError
