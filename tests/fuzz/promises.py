"""What graphkin promises for any input, checked after every command and every call.

A command ends with status 0 and whole, finite results, or with status 2 and one clear line, and then leaves what was there
as it was. A Python call returns something finite or raises :class:`graphkin.InputError`. Nothing takes over a minute.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import sys
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psutil

import graphkin
from graphkin.commands.cli import run
from tests.fuzz import results
from tests.fuzz.draws import Draw

if sys.platform != "win32":
    import resource
    import signal

SECONDS = 60
"""that a case may take"""
GRACE = 15
"""seconds more, after which a case that is stuck outside of Python, where no signal reaches it, is ended with its process"""
MEMORY = 6 * 2**30
"""bytes that a case may use: an allocation that is out of all proportion fails here, and not by taking the machine with it"""

T = TypeVar("T")


class HungError(BaseException):
    """Not an Exception, so that no handler of the program mistakes it for one of its own."""


class Said(NamedTuple):
    """What a command answered."""

    words: list[str]
    status: int
    stdout: str
    stderr: str

    @property
    def worked(self) -> bool:
        return self.status == 0

    @property
    def outcome(self) -> str:
        """The first words of a refusal, without what differs from case to case."""
        if self.worked:
            return self.words[0]
        return refusal(self.stderr.splitlines()[-1].removeprefix("graphkin: "))


@dataclass(frozen=True)
class Case:
    """One seed: its draws, a folder for what it feeds to commands, and the folder that they write to."""

    seed: int
    draw: Draw
    folder: Path
    out: Path
    commands: list[str] = field(default_factory=list)
    """so far, for the message of a failure"""

    def run(self, *arguments: object) -> Said:
        """A command, which writes to ``out``, with all that is promised of it."""
        before = results.contents(self.out)
        stdout, stderr = io.StringIO(), io.StringIO()
        words = [str(argument) for argument in arguments]
        self.commands.append(" ".join(word if len(word) < 200 else word[:100] + "..." for word in words))
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            status = run(words)
        said = Said(words, status, stdout.getvalue(), stderr.getvalue())
        _check_words(said)
        if not said.worked:
            results.check_unchanged(self.out, before, said)
            return said
        results.check_written(self.out, before)
        if "--json" in words:
            results.strict_json(said.stdout)
        return said

    def call(self, function: Callable[[], T]) -> T | str:
        """What ``function`` returns, or the first words of its refusal."""
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                return function()
        except graphkin.InputError as error:
            message = " ".join(str(error).split())
            assert message, "an error without a message"
            assert not control_characters(message), f"control characters in the message {message!r}"
            return refusal(message)


def refusal(message: str) -> str:
    plain = [word for word in message.split() if not any(mark in word for mark in "/\\'\"0123456789")]
    return "refused: " + " ".join(plain[:6])


def control_characters(text: str) -> list[str]:
    return sorted({char for char in text if unicodedata.category(char) == "Cc" and char != "\n"})


def _check_words(said: Said) -> None:
    shown = said.stderr[-6000:]
    assert said.status in (0, 2), f"status {said.status}\n{shown}"
    assert "Traceback" not in said.stderr, f"a traceback\n{shown}"
    for stream in (said.stdout, said.stderr):
        found = control_characters(stream)
        assert not found, f"control characters {found} in {stream[-500:]!r}"
    lines = said.stderr.splitlines()
    complaints = [line for line in lines if line.startswith("graphkin: ")]
    if said.worked:
        assert not complaints, f"a complaint of a command that worked: {complaints}"
        return
    assert len(complaints) == 1 and complaints == lines[-1:], f"a refusal must be one line, found {shown!r}"
    assert complaints[0].removeprefix("graphkin: ").strip(), "an empty refusal"
    silent = said.words[0] != "report" and ("-q" in said.words or said.words[0] not in ("fit", "reproduce"))
    assert len(lines) == 1 or not silent, f"a refusal must be one line, found {shown!r}"


@contextlib.contextmanager
def limits(seconds: float = SECONDS, memory: int = MEMORY) -> Iterator[None]:
    """At most so much time and so much more memory than now. On Windows there are no limits."""
    if sys.platform == "win32":
        yield
        return

    def hung(number: int, frame: Any) -> None:
        raise HungError(f"it took more than {seconds:g} s")

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = psutil.Process().memory_info().vms + memory
    before = signal.signal(signal.SIGALRM, hung)
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(seconds + GRACE, exit=True, file=2)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
