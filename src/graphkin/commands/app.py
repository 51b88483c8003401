"""The list of commands."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from graphkin import __version__
from graphkin.commands.bench import bench_command
from graphkin.commands.experiments import export_command, merge_command, report_command, reproduce_command
from graphkin.commands.graphs import datasets_command, embed_command, evaluate_command, fit_command
from graphkin.errors import SettingError
from graphkin.support.parallel import launched
from graphkin.support.signals import EndedError


class _Commands(TyperGroup):
    """Typer turns Ctrl-C and a closed pipe into a bare exit status; what there is to say of them is said in ``cli``."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, BrokenPipeError) as end:
            raise EndedError from end


app = typer.Typer(
    name="graphkin",
    cls=_Commands,
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
