"""The training loop: epochs of one task or of several at a time, and, on a GPU, one recorded step replayed without waiting."""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from graphkin.errors import DivergedError, InputError
from graphkin.methods import Method
from graphkin.objectives.objective import Task
from graphkin.support.parallel import peers
from graphkin.support.products import products_in
from graphkin.support.progress import Style
from graphkin.support.progress import progress as show_progress
from graphkin.support.signals import stop_after_epoch
from graphkin.training.checkpoints import Checkpoint

LOOK_EVERY = {"cpu": 1, "cuda": 32}
"""epochs between two looks at the loss; on a GPU a look waits for all work that was queued"""
EPOCHS_BEFORE_RECORDING = 3
FEWEST_TIMED, MOST_TIMED, TIMED_FOR = 3, 20, 0.5
"""steps that tell how long a step takes, and seconds after which no more are needed"""


T = TypeVar("T")


@dataclass(frozen=True)
class Watch(Generic[T]):
    """``look`` is called after each of these epochs with what there is by then; what it raises ends training."""

    epochs: Collection[int]
    look: Callable[[T], None]


@dataclass
class Curve:
    losses: list[float] = field(default_factory=list)
    interrupted: bool = False
    """before the last epoch"""
    stop_wanted: bool = False
    """Ctrl-C was pressed, be it in the last epoch"""
    seconds: float = 0.0
    """of training, before a break too"""


def train(
    tasks: list[Task],
    method: Method,
    device: torch.device,
    style: Style,
    title: str,
    checkpoints: Sequence[Checkpoint] = (),
    watch: Watch[int] | None = None,
) -> list[Curve]:
    """Train all tasks for the method's epochs, side by side; Ctrl-C ends all of them after the current epoch.

    With ``checkpoints``, one for each task, a task goes on from its own, and ends with one that holds its last epoch.
    """
    epochs = method.optimiser.epochs
    start = time.perf_counter()

    def spent() -> float:
        return (time.perf_counter() - start) / len(tasks)

    runs = [_Run(task, method, device, place) for place, task in enumerate(tasks)]
    for run, checkpoint in zip(runs, checkpoints, strict=False):
        run.go_on_from(checkpoint)
    among, stopped = peers(), False
    first = min(run.epoch for run in runs) + 1
    with show_progress(style, title, epochs) as report, stop_after_epoch(several_processes=among.size > 1) as stop:
        for epoch in range(first, epochs + 1):
            for run in runs:
                if run.epoch < epoch:
                    run.step()
                if epoch == first and device.type == "cuda":
                    torch.cuda.synchronize(device)  # what the first step of one run caches, the others read
            stopped = among.any(stop.is_set())
            last = epoch == epochs or stopped
            for run, checkpoint in zip(runs, checkpoints, strict=False):
                if run.epoch == epoch and (last or epoch % checkpoint.every == 0):
                    run.look()
                    run.check_parameters()
                    if among.first:
                        checkpoint.write(epoch, run.state(spent()))
            if last or epoch % LOOK_EVERY[device.type] == 0:
                losses = [run.look() for run in runs]
                report(epoch, sum(losses) / len(losses))
            if watch is not None and epoch in watch.epochs:
                for run in runs:
                    run.look()
                watch.look(epoch)
            if last:
                break
    for run in runs:
        run.check_parameters()
    return [Curve(run.losses[: run.epoch].tolist(), run.epoch < epochs, stopped, run.seconds_before + spent()) for run in runs]


def timed_steps(task: Task, method: Method, device: torch.device) -> float:
    """Seconds of a step, of a task that is not used afterwards."""
    run = _Run(task, method, device, 0)
    run.step()  # which warms up
    found: list[float] = []
    while len(found) < FEWEST_TIMED or (len(found) < MOST_TIMED and sum(found) < TIMED_FOR):
        start = time.perf_counter()
        run.step()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


class _Run:
    """One task's training. On a GPU, a step whose shapes never change is recorded as a CUDA graph and replayed."""

    def __init__(self, task: Task, method: Method, device: torch.device, place: int) -> None:
        self.task, self.method, self.device = task, method, device
        self.optimiser = method.optimiser.build((p for p in task.modules.parameters() if p.requires_grad), device)
        self.epoch = self.steps = 0
        self.seconds_before = 0.0
        self.losses = torch.full((method.optimiser.epochs,), math.nan, dtype=torch.float32, device=device)
        self.recorded: torch.cuda.CUDAGraph | None = None
        self.recorded_loss: Tensor | None = None
        self.stream = _stream(device, place) if device.type == "cuda" else None
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream(device))

    def step(self) -> None:
        with torch.cuda.stream(self.stream) if self.stream is not None else nullcontext():
            self._set_rate()
            if self.recorded is None and self.steps == EPOCHS_BEFORE_RECORDING:
                self._record()
            if self.recorded is not None:
                self.recorded.replay()
                assert self.recorded_loss is not None
                self.losses[self.epoch] = self.recorded_loss
            else:
                self.losses[self.epoch] = self._step()
            encoder: Any = self.task.modules["encoder"]
            if hasattr(encoder, "after_step"):
                encoder.after_step()
        self.epoch += 1
        self.steps += 1

    def _set_rate(self) -> None:
        if self.method.optimiser.schedule == "constant":
            return
        rate = self.method.optimiser.rate(self.epoch)
        if isinstance(self.optimiser.rate, Tensor):
            self.optimiser.rate.fill_(rate)
        else:
            self.optimiser.rate = rate

    def _step(self) -> Tensor:
        self.task.modules.train()
        self.optimiser.zero_grad()
        loss = self.task.loss()
        with products_in(self.task.execution.encoder_precision, self.device):
            loss.backward()
        value = loss.detach().clone()
        peers().add_up([value, *(parameter.grad for parameter in self.task.modules.parameters() if parameter.grad is not None)])
        self.optimiser.step()
        self.task.after_epoch()
        return value

    def _record(self) -> None:
        if self.stream is None or not self.task.execution.recorded:
            return
        recorded = torch.cuda.CUDAGraph()
        for generator in self.task.sources.values():
            recorded.register_generator_state(generator)
        with torch.cuda.graph(recorded, stream=self.stream):
            self.recorded_loss = self._step()
        self.recorded = recorded

    def state(self, seconds: float) -> dict[str, Tensor]:
        """All that the next epochs depend on, and how long the ones so far took."""
        if self.stream is not None:
            self.stream.synchronize()
        return {
            **{f"modules.{name}": value for name, value in self.task.modules.state_dict().items()},
            **{
                f"adam.{place}.{name}": value
                for place, values in self.optimiser.memory.items()
                for name, value in values.items()
            },
            **{f"random.{name}": source.get_state() for name, source in self.task.sources.items()},
            **{f"memory.{name}": value for name, value in self.task.memory.items()},
            "losses": self.losses[: self.epoch],
            "seconds": torch.tensor(self.seconds_before + seconds, dtype=torch.float64),
        }

    def go_on_from(self, checkpoint: Checkpoint) -> None:
        found = peers().from_first(checkpoint.read)
        if found is None:
            return
        with checkpoint.reading():
            self._restore(found.epoch, found.state)

    def _restore(self, epoch: int, state: dict[str, Tensor]) -> None:
        if not 0 < epoch <= len(self.losses):
            raise ValueError(f"epoch {epoch}")
        self.epoch = epoch
        self.losses[:epoch] = state["losses"]
        self.seconds_before = state["seconds"].item()
        self.task.modules.load_state_dict(_below("modules", state))
        for name, value in _below("memory", state).items():
            self.task.memory[name].copy_(value)
        for name, value in _below("random", state).items():
            self.task.sources[name].set_state(value)
        self.optimiser.remember({place: _below(f"adam.{place}", state) for place in range(len(self.optimiser.parameters))})

    def look(self) -> float:
        """The last loss; an error if one so far was not finite."""
        if self.stream is not None:
            torch.cuda.current_stream(self.device).wait_stream(self.stream)
        so_far = self.losses[: self.epoch]
        value = so_far[-1].item()
        if not math.isfinite(value):
            first = int((~so_far.isfinite()).nonzero()[0])
            raise _diverged(first + 1, so_far[first].item(), self.method)
        return value

    def check_parameters(self) -> None:
        """An error if one is not finite; the loss does not show what the last step did."""
        if self.stream is not None:
            self.stream.synchronize()
        if not all(torch.isfinite(parameter).all() for parameter in self.task.modules.parameters()):
            raise _diverged(self.epoch, math.nan, self.method)


def _below(prefix: str, state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(f"{prefix}."): value for name, value in state.items() if name.startswith(f"{prefix}.")}


@functools.cache
def _stream(device: torch.device, place: int) -> torch.cuda.Stream:
    """The same stream for every run in the same place: each stream keeps workspaces of PyTorch's libraries for good."""
    return torch.cuda.Stream(device)


def _diverged(epoch: int, value: float, method: Method) -> InputError:
    tau = method.settings().get("tau")
    found = f"learning_rate={method.optimiser.learning_rate}" + ("" if tau is None else f", tau={tau}")
    instead = "a smaller learning_rate" + ("" if tau is None else " or a larger tau")
    return DivergedError(
        f"the loss became {value} in epoch {epoch} of {method.optimiser.epochs}; the likely cause is a setting that is too "
        f"extreme, most often the learning rate (found {found}): try {instead}."
    )
