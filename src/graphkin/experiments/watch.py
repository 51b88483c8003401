"""The progress of a reproduction, on standard error: two live bars on a terminal (runs, epochs), one line per run elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from graphkin.errors import printable
from graphkin.experiments.execute import Failure
from graphkin.experiments.jobs import Job
from graphkin.experiments.outcomes import Outcome
from graphkin.support.progress import Style


@contextmanager
def watch(*, quiet: bool = False) -> Iterator[Lines]:
    if quiet or not sys.stderr.isatty():
        yield Lines(show=not quiet)
        return
    with Bars() as bars:
        yield bars


class Lines:
    """One line for every finished run, with the time left estimated from the finished ones."""

    def __init__(self, show: bool = True) -> None:
        self.show = show
        self.start = time.monotonic()
        self.costs: dict[tuple[str, int], float] = {}
        self.total = self.done_cost = 0.0
        self.count = self.finished = 0

    def begin(self, jobs: list[Job], finished: int) -> None:
        self.costs = {(job.trial.key, seed): job.cost for job in jobs for seed in job.seeds}
        self.total = sum(self.costs.values())
        self.count, self.finished = finished + len(self.costs), finished
        self.start = time.monotonic()
        self.say(f"{self.count} runs, {finished} finished before, {len(self.costs)} to do")

    def epochs(self, job: Job) -> Style:
        return "none"

    def done(self, job: Job, outcome: Outcome) -> None:
        self.finished += 1
        self.done_cost += self.costs.get((outcome.trial, outcome.seed), 0.0)
        measure, value = list(outcome.test.items())[-1]
        self.say(
            f"{self.finished}/{self.count} {job.row}, seed {outcome.seed}: "
            f"{value:.2f} % ({measure}), {outcome.seconds:.1f} s, {self.left} left"
        )

    def failed(self, failure: Failure) -> None:
        self.say(f"failed: {failure.job.title}: {failure.reason}")

    @property
    def left(self) -> str:
        if not self.done_cost:
            return "unknown"
        seconds = (time.monotonic() - self.start) * (self.total - self.done_cost) / self.done_cost
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {rest} s"

    def say(self, text: str) -> None:
        if self.show:
            print(printable(text), file=sys.stderr, flush=True)


class Bars(Lines):
    def __init__(self) -> None:
        super().__init__(show=False)
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self.bars: Any = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}"),
            console=Console(stderr=True),
        )
        self.runs = self.bars.add_task("runs", state="", total=None)
        self.current = self.bars.add_task("starting", state="", total=None)

    def __enter__(self) -> Bars:
        self.bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bars.stop()

    def begin(self, jobs: list[Job], finished: int) -> None:
        super().begin(jobs, finished)
        self.bars.update(self.runs, total=self.count, completed=finished)

    def epochs(self, job: Job) -> Style:
        self.bars.reset(self.current, description=printable(job.title), total=job.trial.epochs or None, state="")

        def report(epoch: int, loss: float) -> None:
            self.bars.update(self.current, completed=epoch, state=f"loss {loss:.4f}")

        return report

    def done(self, job: Job, outcome: Outcome) -> None:
        super().done(job, outcome)
        self.bars.update(self.runs, completed=self.finished, state=f"{self.left} left")
