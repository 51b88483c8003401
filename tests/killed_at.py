"""A command that dies at a known point, in a process of its own, for tests of what the same command makes of it afterwards."""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import os
import resource
import signal
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Protocol

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["graphkin.commands.cli", "graphkin.commands.graphs", "graphkin.commands.experiments"])
FIRST_BYTES = 4096
PATIENCE = 120
"""seconds that a command may take"""


class Point(Protocol):
    def set_up(self) -> None:
        """See to it that this process dies there."""


@dataclass(frozen=True)
class AtCall:
    """Before the call of this number of a function or method, named ``module:name``."""

    place: str
    number: int = 1

    def set_up(self) -> None:
        calls = 0

        def counted(original: Callable[..., Any], *given: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == self.number:
                die()
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


def start(arguments: list[str], folder: Path, point: Point | None = None, **environment: object) -> ForkServerProcess:
    """The command in a process of its own, in ``folder``; what it says goes to :func:`words`."""
    variables = {name: str(value) for name, value in environment.items()}
    process = CONTEXT.Process(target=_run, args=(arguments, folder, point, variables))
    process.start()
    return process


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


def _run(arguments: list[str], folder: Path, point: Point | None, variables: dict[str, str]) -> None:
    import torch

    from graphkin.commands.cli import run

    said = os.open(_said(folder, variables.get("RANK", 0)), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(said, stream)
    os.chdir(folder)
    os.environ.update(variables)
    torch.set_num_threads(1)
    if point is not None:
        point.set_up()
    sys.exit(run(arguments))
