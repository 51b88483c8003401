"""Commands in processes of their own that get a signal at a known point, for tests of what comes of it.

The processes are forked from one that has imported everything.
"""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import os
import pkgutil
import resource
import signal
import socket
import sqlite3
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Protocol

import graphkin

CONTEXT = multiprocessing.get_context("forkserver")
MODULES = [module.name for module in pkgutil.walk_packages(graphkin.__path__, "graphkin.")]
CONTEXT.set_forkserver_preload([name for name in MODULES if not name.endswith(("__main__", "fused"))])
FIRST_BYTES = 4096
PATIENCE = 120
"""seconds that a command may take"""
STEP = "graphkin.support.adam:Adam.step"
"""what every epoch calls once, near its end"""


class Point(Protocol):
    def set_up(self) -> None:
        """See to it that this process gets its signal there."""


@dataclass(frozen=True)
class AtCall:
    """Before the call of this number of a function or method, named ``module:name``."""

    place: str
    number: int = 1
    by: signal.Signals = signal.SIGKILL

    def set_up(self) -> None:
        calls = 0

        def counted(original: Callable[..., Any], *given: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == self.number:
                os.kill(os.getpid(), self.by)
            return original(*given, **named)

        replace_everywhere(self.place, counted)


@dataclass(frozen=True)
class AtWrite:
    """When a file of this name is written for the first time.

    ``half``: half of it is in the temporary file. ``after``: it is in its place. ``cut``: the kernel ends the process, by
    SIGXFSZ, at the first write beyond a few bytes, wherever that comes from.
    """

    name: str
    how: str = "half"

    def set_up(self) -> None:
        def write_whole(original: Callable[..., Any], path: str | Path, write: Callable[[Path], Any], **named: Any) -> None:
            def interrupted(file: Path) -> None:
                if self.how == "cut":
                    _allow_no_long_file()
                write(file)
                if self.how == "half":
                    os.truncate(file, file.stat().st_size // 2)
                    die()

            if Path(path).name != self.name:
                original(path, write, **named)
            else:
                original(path, interrupted, **named)
                die()

        replace_everywhere("graphkin.support.files:write_whole", write_whole)


@dataclass(frozen=True)
class AtCommit:
    """Before or after the first transaction that adds a run to a store is committed."""

    after: bool

    def set_up(self) -> None:
        after = self.after

        class Connection(sqlite3.Connection):
            adds_run = False

            def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
                last = self.adds_run and sql == "COMMIT"
                self.adds_run |= "INTO runs" in sql
                if last and not after:
                    die()
                cursor = super().execute(sql, *given)
                if last:
                    die()
                return cursor

        patched: Any = sqlite3
        patched.connect = functools.partial(sqlite3.connect, factory=Connection)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _allow_no_long_file() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FIRST_BYTES, FIRST_BYTES))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)


def replace_everywhere(place: str, wrapper: Callable[..., Any]) -> None:
    """Call ``wrapper`` with the original and what it was given, also where modules imported the original by its name."""
    module_name, _, path = place.partition(":")
    *owners, name = path.split(".")
    try:
        owner: Any = functools.reduce(getattr, owners, importlib.import_module(module_name))
        original = getattr(owner, name)
    except (ImportError, AttributeError) as error:
        raise LookupError(f"there is no {place} any more: say in this test what has taken its place") from error

    @functools.wraps(original)
    def replaced(*given: Any, **named: Any) -> Any:
        return wrapper(original, *given, **named)

    setattr(owner, name, replaced)
    for module in [module for known, module in sys.modules.items() if known.partition(".")[0] == "graphkin"]:
        for known in [known for known, value in vars(module).items() if value is original]:
            setattr(module, known, replaced)


def start(arguments: Sequence[object], folder: Path, point: Point | None = None, **environment: object) -> ForkServerProcess:
    """The command in a process of its own, in ``folder``; what it says goes to :func:`words`."""
    return started(_run_command, [str(argument) for argument in arguments], folder, point, **environment)


def together(arguments: Sequence[object], folder: Path, *points: Point | None) -> list[int | None]:
    """The command in as many processes as there are points, started as torchrun starts them, but with nobody to end the others
    when one dies: their exit statuses, by rank."""
    meeting = meetings(len(points))
    processes = [start(arguments, folder, point, **place) for place, point in zip(meeting, points, strict=True)]
    return [ended(process) for process in processes]


def started(function: Callable[..., Any], *given: Any, **environment: object) -> ForkServerProcess:
    """Any function of a module in a process of its own."""
    variables = {name: str(value) for name, value in environment.items()}
    process = CONTEXT.Process(target=_call, args=(function, given, variables))
    process.start()
    return process


def meetings(processes: int) -> list[dict[str, object]]:
    """The environment variables by which processes find each other, by rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [{**shared, "RANK": rank, "LOCAL_RANK": rank} for rank in range(processes)]


def ended(process: ForkServerProcess) -> int | None:
    """Its exit status, minus the signal that it died by; None if it had to be ended after a while."""
    process.join(PATIENCE)
    status = process.exitcode
    if status is None:
        process.kill()
        process.join()
    return status


def words(folder: Path, rank: int = 0) -> str:
    return _said(folder, rank).read_text(encoding="utf-8")


def _said(folder: Path, rank: object) -> Path:
    return folder.with_name(f"{folder.name}.said-{rank}")


def _call(function: Callable[..., Any], given: tuple[Any, ...], variables: dict[str, str]) -> None:
    import torch

    os.environ.update(variables)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored where tests run in the background
    torch.set_num_threads(1)
    function(*given)


def _run_command(arguments: list[str], folder: Path, point: Point | None) -> None:
    from graphkin.commands.cli import run

    said = os.open(_said(folder, os.environ.get("RANK", 0)), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(said, stream)
    os.chdir(folder)
    if point is not None:
        point.set_up()
    sys.exit(run(arguments))
