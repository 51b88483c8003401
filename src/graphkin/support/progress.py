"""The progress of a run: a live bar on a terminal, a few plain lines in a notebook, and elsewhere the log."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeAlias

from graphkin.errors import SettingError, check_choice, printable

STYLES = ("auto", "visible", "bar", "lines", "log", "none")
LOG = logging.getLogger("graphkin")


class Report(Protocol):
    def __call__(self, epoch: int, loss: float) -> None: ...


Style: TypeAlias = str | bool | Report
"""One of ``STYLES``, True ("visible"), False ("none"), or a function to call after every reported epoch."""


def chosen_style(style: Style) -> str | Report:
    """What "auto" and "visible" are here: a bar on a terminal; else lines, but "auto" outside a notebook is the log."""
    if isinstance(style, bool):
        style = "visible" if style else "none"
    if not isinstance(style, str):
        if not callable(style) or isinstance(style, type):
            raise SettingError(f"progress must be True, False, a function or one of {', '.join(STYLES)}, found {style!r}.")
        return style
    check_choice("progress", style, STYLES)
    if style not in ("auto", "visible"):
        return style
    if sys.stderr.isatty():
        return "bar"
    return "lines" if style == "visible" or _in_notebook() else "log"


def _in_notebook() -> bool:
    """Whether a Jupyter kernel runs this program; that a program starts kernels does not count."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def tell(style: Style, lines: Iterable[str]) -> None:
    """Say something where progress is shown."""
    chosen = chosen_style(style)
    if isinstance(chosen, str) and chosen != "none":
        for line in lines:
            _teller(chosen)(printable(line))


def _teller(style: str) -> Callable[[str], None]:
    return LOG.info if style == "log" else lambda line: print(line, file=sys.stderr, flush=True)


@contextmanager
def progress(style: Style, title: str, epochs: int) -> Iterator[Report]:
    """Yield a function to call after every epoch."""
    chosen = chosen_style(style)
    if not isinstance(chosen, str):
        yield chosen
        return
    title = printable(title)
    if chosen == "bar":
        with _bar(title, epochs) as report:
            yield report
    elif chosen in ("lines", "log"):
        yield _Lines(title, epochs, _teller(chosen))
    else:
        yield lambda epoch, loss: None


@contextmanager
def _bar(title: str, epochs: int) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TextColumn("{task.fields[rate]:.1f} epochs/s"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=epochs, loss=float("nan"), rate=0.0)
        start = time.perf_counter()

        def report(epoch: int, loss: float) -> None:
            rate = epoch / max(time.perf_counter() - start, 1e-9)
            bar.update(task, completed=epoch, loss=loss, rate=rate)

        yield report


class _Lines:
    """At most about ten lines a run, whichever epochs are reported."""

    def __init__(self, title: str, epochs: int, tell: Callable[[str], None]) -> None:
        self.title, self.epochs, self.tell = title, epochs, tell
        self.step = self.next = max(epochs // 10, 1)
        self.start = time.perf_counter()

    def __call__(self, epoch: int, loss: float) -> None:
        if epoch >= self.next or epoch == self.epochs:
            self.next = (epoch // self.step + 1) * self.step
            rate = epoch / max(time.perf_counter() - self.start, 1e-9)
            left = (self.epochs - epoch) / rate
            self.tell(f"{self.title}: epoch {epoch}/{self.epochs}, loss {loss:.4f}, {rate:.1f} epochs/s, {left:.0f} s left")
