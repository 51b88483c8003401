"""The program around its commands, from the first signal to the exit status.

Nothing heavy is imported before :func:`main` has taken care of the streams and of Ctrl-C.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import Any

from graphkin.commands.loading import loading
from graphkin.errors import InputError, first_line, flags, is_lack_of_memory, printable
from graphkin.support import signals
from graphkin.support.launch import LostError, ToldElsewhereError

BROKEN_PIPE = 128 + 13


def main() -> None:
    try:
        with loading():
            _open_closed_streams()
            for stream in (sys.stdout, sys.stderr):
                if isinstance(stream, io.TextIOWrapper):
                    stream.reconfigure(errors="replace")
            import graphkin.commands.app  # noqa: F401
    except InputError as error:
        sys.exit(_complain(str(error)))
    status = run(sys.argv[1:] or ["--help"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(_flushed(status))


def run(arguments: list[str]) -> int:
    """Exit status: 0 success, 2 the user's mistake in one line, 1 an internal error, 130 Ctrl-C, 143 SIGTERM."""
    from graphkin.commands.app import app

    with signals.sigterm_obeyed(), flags():
        try:
            status = app(arguments, prog_name="graphkin", standalone_mode=False)
        except InputError as error:
            return _complain(str(error))
        except LostError as error:
            _complain(str(error))
            return 1
        except ToldElsewhereError:
            return 2
        except signals.EndedError as end:
            if isinstance(end.__cause__, BrokenPipeError):
                return BROKEN_PIPE
            _complain(f"{'terminated' if signals.terminated() else 'interrupted'} before the end.")
            return signals.status()
        except OSError as error:
            return _complain(f"{error.filename or 'a file or the output'}: {error.strerror or error}")
        except Exception as error:
            return _unexpected(error)
    return status if isinstance(status, int) else 0


def _unexpected(error: Exception) -> int:
    import traceback

    message: Any = getattr(error, "format_message", None)
    if message is not None:
        return _complain(message() + _advice(error))
    if is_lack_of_memory(error):
        return _complain(
            f"there is not enough memory ({first_line(error)}): try --memory, fewer features or a smaller hidden, "
            "or a machine with more."
        )
    traceback.print_exception(error)
    print("graphkin: this is an internal error of graphkin; please report it.", file=sys.stderr)
    return 1


def _advice(usage: Any) -> str:
    """For those who name two tables, or do not know what a command takes."""
    if "extra argument" not in usage.format_message() or usage.ctx is None:
        return ""
    takes_tables = any(option.name == "nodes" and option.param_type_name == "option" for option in usage.ctx.command.params)
    return f": see {usage.ctx.command_path} --help" + (", or add --nodes before a table of nodes." if takes_tables else ".")


def _complain(message: str) -> int:
    print("graphkin: " + " ".join(printable(message).split()), file=sys.stderr)
    return 2


def _open_closed_streams() -> None:
    """A file that is opened later must not take the number of a closed stream: libraries would write into it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115


def _flushed(status: int) -> int:
    """The status, unless nobody reads the output or it does not fit on the disk."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        status = BROKEN_PIPE
    except OSError as error:
        status = _complain(f"standard output cannot be written: {error.strerror}.")
    else:
        return status
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter tries once more, and complains
    return status
