"""The command line: its commands, and what becomes of their errors."""

from __future__ import annotations

import io
import sys
import traceback
from typing import Annotated

import typer

from graphkin import __version__
from graphkin.commands.bench import bench_command
from graphkin.commands.experiments import export_command, merge_command, report_command, reproduce_command
from graphkin.commands.graphs import datasets_command, embed_command, evaluate_command, fit_command
from graphkin.commands.options import INTERRUPTED
from graphkin.errors import InputError, SettingError
from graphkin.parallel import LostError, ToldElsewhereError, launched

app = typer.Typer(
    name="graphkin",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Node embeddings from a graph without labels: similar nodes attract, dissimilar nodes repel.",
)
app.command("fit")(fit_command)
app.command("embed")(embed_command)
app.command("evaluate")(evaluate_command)
app.command("datasets")(datasets_command)
app.command("reproduce")(reproduce_command)
app.command("report")(report_command)
app.command("bench")(bench_command)
results_app = typer.Typer(no_args_is_help=True, help="Export and merge stores of finished runs.")
results_app.command("export")(export_command)
results_app.command("merge")(merge_command)
app.add_typer(results_app, name="results")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"graphkin {__version__}")
        raise typer.Exit


@app.callback()
def main_options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand != "fit" and launched().size > 1:
        raise SettingError(f"torchrun goes with fit, which shares out its work; {context.invoked_subcommand} is run once.")


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.exit(run(sys.argv[1:] or ["--help"]))


def run(arguments: list[str]) -> int:
    """Exit status: 0 it worked, 2 the user's mistake in one line, 1 a failure of ours."""
    try:
        status = app(arguments, prog_name="graphkin", standalone_mode=False)
    except InputError as error:
        return _complain(str(error))
    except LostError as error:
        _complain(str(error))
        return 1
    except ToldElsewhereError:
        return 2
    except OSError as error:
        return _complain(f"{error.filename or 'a file'}: {error.strerror or error}")
    except KeyboardInterrupt:
        print("graphkin: interrupted; nothing was written.", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        message = getattr(error, "format_message", None)
        if message is not None:
            return _complain(message())
        traceback.print_exc()
        print("graphkin: this is a failure of graphkin itself, please report it.", file=sys.stderr)
        return 1
    return status if isinstance(status, int) else 0


def _complain(message: str) -> int:
    print("graphkin: " + " ".join(message.split()), file=sys.stderr)
    return 2
