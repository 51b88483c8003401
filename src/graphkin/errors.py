"""A user's mistake, told in one line: what must hold, what was found, what is allowed."""

from __future__ import annotations

import difflib
import importlib.util
import math
import numbers
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

LARGEST_NUMBER = 1e18
"""of a setting: PyTorch multiplies by whole numbers of 64 bits"""
LONGEST_REASON, LONGEST_MESSAGE = 200, 2000
EXTRAS = {
    "matplotlib": "plots",
    "optuna": "tune",
    "usearch": "index",
}
"""optional libraries, and the extra of graphkin that installs each"""


def printable(text: str) -> str:
    """The text with control characters as their escapes: what stands in a user's file must not steer the terminal."""
    return "".join(char if char.isprintable() or char in "\n\t" else repr(char)[1:-1] for char in text)


_on_command_line = ContextVar("on_command_line", default=False)


@contextmanager
def flags() -> Iterator[None]:
    """Within, messages name arguments as the command line does: --label kind, and not label='kind'."""
    before = _on_command_line.set(True)
    try:
        yield
    finally:
        _on_command_line.reset(before)


def argument(name: str, value: object, written: str | None = None) -> str:
    """An argument as the user would write it; ``written`` is its value on the command line."""
    if _on_command_line.get():
        return f"--{name.replace('_', '-')} {value if written is None else written}"
    return f"{name}={value!r}"


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    lines = str(error).strip().splitlines()
    return printable(lines[0][:LONGEST_REASON]) if lines else type(error).__name__


class InputError(ValueError):
    """Something the user gave is wrong; the message says what, and what would be right."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message if len(message) <= LONGEST_MESSAGE else message[:LONGEST_MESSAGE] + "..."))


class GraphError(InputError):
    """The graph cannot be used as it is."""


class SettingError(InputError):
    """A setting is unknown or outside its range."""


class MemoryLimitError(SettingError):
    """There is less memory than the smallest plan needs."""


class SplitError(InputError):
    """A split of the nodes is impossible or overlaps."""


class ModelFileError(InputError):
    """A file is not a graphkin model that this version can read."""


class OutputError(InputError):
    """Results cannot be written where the user wants them."""


class MissingError(InputError):
    """A library that only some users need is not installed."""


class DivergedError(InputError):
    """The loss stopped being a finite number."""


def is_lack_of_memory(error: BaseException) -> bool:
    """PyTorch says it in a RuntimeError, on a GPU in one of its own."""
    words = ("can't allocate memory", "not enough memory", "out of memory")
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(word in str(error) for word in words))


def unknown(what: str, found: str, allowed: Iterable[str]) -> SettingError:
    """The error for a name outside a list, with the nearest name as a suggestion."""
    names = list(allowed)
    near = difflib.get_close_matches(found.lower(), names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return SettingError(f"unknown {what} {found!r}.{hint} Allowed: {', '.join(names)}.")


def check_installed(what: str, library: str, instead: str = "") -> None:
    """Raise unless an optional library is there. Called before any work, it costs the user no time."""
    if importlib.util.find_spec(library) is None:
        other = f", or {instead}" if instead else ""
        raise MissingError(f"{what} needs {library}, which is not installed: pip install 'graphkin[{EXTRAS[library]}]'{other}")


def check_text(name: str, value: object, *, optional: bool = False) -> None:
    if not isinstance(value, str) and not (optional and value is None):
        raise SettingError(f"{name} must be a string, found {shown(value)}.")


def check_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise SettingError(f"{name} must be True or False, found {shown(value)}.")


def check_choice(name: str, value: object, allowed: Iterable[str]) -> None:
    names = list(allowed)
    if not isinstance(value, str):
        raise SettingError(f"{name} must be one of {', '.join(names)}, found {shown(value)}.")
    if value not in names:
        raise unknown(name, value, names)


def check_range(
    name: str,
    value: object,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> None:
    """Raise unless ``value`` is a number inside the given bounds."""
    bounds = [
        (f"> {above}", above is None or _number(value) > above),
        (f">= {at_least}", at_least is None or _number(value) >= at_least),
        (f"< {below}", below is None or _number(value) < below),
        (f"<= {at_most}", at_most is None or _number(value) <= at_most),
    ]
    if not (abs(_number(value)) <= LARGEST_NUMBER and all(holds for _, holds in bounds)):
        given = (above, at_least, below, at_most)
        rule = " and ".join(text for (text, _), bound in zip(bounds, given, strict=True) if bound is not None)
        if math.isfinite(_number(value)) and abs(_number(value)) > LARGEST_NUMBER:
            rule += f" and at most {LARGEST_NUMBER:g}"
        raise SettingError(f"{name} must be {f'a number {rule}'.strip()}, found {shown(value)}.")


def check_whole(name: str, value: object, *, at_least: int, at_most: int = 2**40) -> None:
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or not at_least <= int(value) <= at_most:  # type: ignore[call-overload]
        upper = f" and <= {at_most}" if at_most < 2**40 or (whole and int(value) > at_most) else ""  # type: ignore[call-overload]
        raise SettingError(f"{name} must be a whole number >= {at_least}{upper}, found {shown(value)}.")


def _number(value: object) -> float:
    """NaN, which no bound admits, for whatever is not a number that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def shown(value: object) -> str:
    """A number or a text as it is; of anything else, its type."""
    if not isinstance(value, str | bytes | numbers.Number | tuple | list | None):
        return type(value).__name__
    try:
        text = str(value) if isinstance(value, numbers.Number) else repr(value)
    except ValueError:  # a whole number of more digits than Python prints
        return "a number with thousands of digits"
    return text if len(text) <= 60 else text[:57] + "..."
