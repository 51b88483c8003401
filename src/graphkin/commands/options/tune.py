"""``graphkin tune``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from graphkin.commands.options.fit import MemoryOption, MethodOption, SetOption, parse_settings, parse_value
from graphkin.commands.options.shared import DeviceOption, GraphArgument, JsonOption, QuietOption, ReadingOptions, SeedOption
from graphkin.errors import SettingError
from graphkin.graphs.catalogue import DEFAULT

SECONDS = {"h": 3600, "m": 60, "s": 1}


@dataclass(frozen=True, kw_only=True)
class Tune(ReadingOptions):
    """Search for better settings of a method on a graph.

    The first trial has the method's settings without a search. With labels, the best mean validation accuracy wins; test nodes
    are never used. Without labels, held-out edges decide. Every trial is kept in the output folder: stop it at any time, and
    the same command resumes. At the end, settings.toml is there for graphkin fit --preset.

    Examples:

      graphkin tune --trials 20

      graphkin tune my-folder --method grace --time 30m

      graphkin tune --search tau=0.1:1.0:log --search hidden=128,256 --set epochs=100

      graphkin tune edges.csv --features degree --criterion edges

      graphkin fit --preset runs/tune-cora-bundled-kin/settings.toml
    """

    graph: GraphArgument = DEFAULT
    method: MethodOption = None
    trials: Annotated[
        int | None,
        typer.Option(help="How many trials in all, including earlier ones in the folder. Default: 30 without --time."),
    ] = None
    time: Annotated[str | None, typer.Option(help="Start no trial after this time, e.g. 90s, 10m or 1h30m.")] = None
    search: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=LOW:HIGH", help="Search this setting too, or in this range instead; also NAME=A,B,C; may be repeated."
        ),
    ] = None
    settings: SetOption = None
    criterion: Annotated[
        str, typer.Option(help="labels, edges or agreement; auto is labels if there are any, otherwise edges.")
    ] = "auto"
    protocol: Annotated[str, typer.Option(help="For labels: grace (random splits) or public (the graph's own).")] = "grace"
    splits: Annotated[int, typer.Option(help="For labels: how many random splits.")] = 5
    repeats: Annotated[
        int | None, typer.Option(help="Training runs per trial, with different seeds. Default: 1; 2 for agreement.")
    ] = None
    seed: SeedOption = 0
    device: DeviceOption = "auto"
    memory: MemoryOption = None
    preset: Annotated[
        str | None, typer.Option(help="Start from the shipped settings of this dataset, or from those of a .toml file.")
    ] = None
    out: Annotated[Path | None, typer.Option(help="Folder for the results. Default: runs/tune-GRAPH-METHOD.")] = None
    quiet: QuietOption = False
    as_json: JsonOption = False

    @property
    def seconds(self) -> float | None:
        return None if self.time is None else parse_time(self.time)

    def how(self) -> dict[str, Any]:
        """What :func:`graphkin.tune` takes besides the graph, method and folder."""
        names = ("preset", "trials", "seconds", "criterion", "protocol", "splits", "repeats", "seed", "device", "memory")
        given = {name: getattr(self, name) for name in names}
        return {**given, "search": parse_search(self.search or []), **parse_settings(self.settings or [])}


def parse_time(text: str) -> float:
    """Seconds; ``90s``, ``10m``, ``1h30m``, or a number of seconds."""
    found = re.fullmatch(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s?)?", text.strip())
    if found is None or not any(found.groups()):
        raise SettingError(f"--time must be a time such as 90s, 10m or 1h30m, found {text!r}.")
    return float(sum(int(part or 0) * unit for part, unit in zip(found.groups(), SECONDS.values(), strict=True)))


def parse_search(pairs: list[str]) -> dict[str, Any]:
    """NAME=LOW:HIGH, NAME=LOW:HIGH:log or NAME=A,B,C as tables of a search space."""
    spaces: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = (part.strip() for part in pair.partition("="))
        if not (name and equals and text) or text.count(":") > 2:
            raise SettingError(f"--search takes NAME=LOW:HIGH or NAME=A,B,C, such as tau=0.1:1.0, found {pair!r}.")
        if ":" in text:
            low, high, *scale = text.split(":")
            if scale and scale[0].strip() != "log":
                raise SettingError(f"--search takes NAME=LOW:HIGH:log for a logarithmic scale, found {pair!r}.")
            table: dict[str, Any] = {"low": parse_value(low.strip()), "high": parse_value(high.strip()), "log": bool(scale)}
        else:
            table = {"choices": [parse_value(part.strip()) for part in text.split(",")]}
        spaces[name.replace("-", "_")] = table
    return spaces
