"""The list of commands. What a command takes is in ``options``; its work is imported when it is called."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from graphkin import __version__
from graphkin.commands.loading import loaded
from graphkin.commands.options.bench import Bench
from graphkin.commands.options.cluster import Cluster
from graphkin.commands.options.datasets import Datasets
from graphkin.commands.options.embed import Embed
from graphkin.commands.options.evaluate import Evaluate
from graphkin.commands.options.fit import Fit
from graphkin.commands.options.links import Links
from graphkin.commands.options.map import Map
from graphkin.commands.options.report import Report
from graphkin.commands.options.reproduce import Reproduce
from graphkin.commands.options.results import Export, Merge
from graphkin.commands.options.similar import Similar
from graphkin.commands.options.tune import Tune
from graphkin.errors import SettingError
from graphkin.support.launch import launched
from graphkin.support.signals import EndedError


class _Commands(TyperGroup):
    """Typer turns Ctrl-C and a closed pipe into a bare exit status; ``cli`` has words for both."""

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
results_app = typer.Typer(no_args_is_help=True, help="Export and merge stores of finished runs.")


def _command(options: type[Any], work: str) -> Callable[..., None]:
    """A function with the fields of ``options`` as its parameters, as Typer reads it; ``work`` is a ``module:name``."""

    def call(**given: Any) -> None:
        loaded(f"graphkin.commands.{work}")(options(**given))

    hints = get_type_hints(options, include_extras=True)
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in dataclasses.fields(options)
    ]
    described: Any = call
    described.__signature__ = inspect.Signature(parameters)
    described.__doc__ = _unwrapped(inspect.getdoc(options) or "")
    return call


def _unwrapped(text: str) -> str:
    """Paragraphs on one line each, for the terminal to wrap."""
    return "\n\n".join(part if part.startswith(" ") else " ".join(part.split()) for part in text.split("\n\n"))


app.command("fit")(_command(Fit, "fit:run"))
app.command("tune")(_command(Tune, "tune:run"))
app.command("embed")(_command(Embed, "embed:run"))
app.command("evaluate")(_command(Evaluate, "evaluate:run"))
app.command("similar")(_command(Similar, "similar:run"))
app.command("cluster")(_command(Cluster, "cluster:run"))
app.command("map")(_command(Map, "map:run"))
app.command("links")(_command(Links, "links:run"))
app.command("datasets")(_command(Datasets, "datasets:run"))
app.command("reproduce")(_command(Reproduce, "reproduce:run"))
app.command("report")(_command(Report, "report:run"))
app.command("bench")(_command(Bench, "bench:run"))
results_app.command("export")(_command(Export, "results:export"))
results_app.command("merge")(_command(Merge, "results:merge"))
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
        raise SettingError(
            f"only fit can share its work between processes; run {context.invoked_subcommand} once, without torchrun."
        )
