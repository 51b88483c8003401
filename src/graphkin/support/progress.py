"""The progress of a run, on standard error: a live bar on a terminal, a few plain lines elsewhere, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeAlias

from graphkin.errors import SettingError, check_choice, printable

STYLES = ("auto", "visible", "bar", "lines", "none")


class Report(Protocol):
    def __call__(self, epoch: int, loss: float) -> None: ...


Style: TypeAlias = str | Report
"""One of ``STYLES``, or a function to call after every reported epoch."""


@contextmanager
def progress(style: Style, title: str, epochs: int) -> Iterator[Report]:
    """Yield a function to call after every epoch.

    On a terminal "auto" and "visible" are a bar; elsewhere "auto" is nothing and "visible" a few lines.
    """
    if not isinstance(style, str):
        if not callable(style) or isinstance(style, type):
            raise SettingError(f"progress must be a function or one of {', '.join(STYLES)}, found {style!r}.")
        yield style
        return
    check_choice("progress", style, STYLES)
    title = printable(title)
    if style in ("auto", "visible"):
        style = "bar" if sys.stderr.isatty() else {"auto": "none", "visible": "lines"}[style]
    if style == "bar":
        with _bar(title, epochs) as report:
            yield report
    elif style == "lines":
        yield _Lines(title, epochs)
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

    def __init__(self, title: str, epochs: int) -> None:
        self.title, self.epochs = title, epochs
        self.step = self.next = max(epochs // 10, 1)
        self.start = time.perf_counter()

    def __call__(self, epoch: int, loss: float) -> None:
        if epoch >= self.next or epoch == self.epochs:
            self.next = (epoch // self.step + 1) * self.step
            rate = epoch / max(time.perf_counter() - self.start, 1e-9)
            left = (self.epochs - epoch) / rate
            print(
                f"{self.title}: epoch {epoch}/{self.epochs}, loss {loss:.4f}, {rate:.1f} epochs/s, {left:.0f} s left",
                file=sys.stderr,
                flush=True,
            )
