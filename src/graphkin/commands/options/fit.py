"""``graphkin fit``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer

from graphkin.commands.options.shared import (
    BaselinesOption,
    CheckpointOption,
    DeviceOption,
    GraphArgument,
    JsonOption,
    OverwriteOption,
    QuietOption,
    ReadingOptions,
    SeedOption,
    SplitsOption,
)
from graphkin.errors import SettingError
from graphkin.graphs.catalogue import DEFAULT


def method_names() -> list[str]:
    """The shipped methods. A method has a file of settings, and a "+" where these have a part for it."""
    names = []
    for file in resources.files("graphkin").joinpath("methods", "settings").iterdir():
        base, suffix = file.name.rsplit(".", 1)
        if suffix == "toml":
            enhanced = "plus" in tomllib.loads(file.read_text(encoding="utf-8"))["default"]
            names += [base, f"{base}+"] if enhanced else [base]
    return sorted(names)


MethodOption = Annotated[
    str | None,
    typer.Option("--method", "-m", help=f"One of: {', '.join(method_names())}. Default: the method of a preset file, or kin."),
]
MemoryOption = Annotated[
    str | None, typer.Option(help="Use at most this much memory, e.g. 8GiB. Default: what the device has.")
]
SetOption = Annotated[list[str] | None, typer.Option("--set", "-s", metavar="NAME=VALUE", help="Any setting; may be repeated.")]


@dataclass(frozen=True, kw_only=True)
class Fit(ReadingOptions):
    """Train on a graph and write embeddings, model and run file.

    Without GRAPH, this is the bundled Cora. If the graph has labels, they score the embeddings; they never train them (except
    with graph-mlp). Ctrl-C stops after the current epoch, keeps what was learned, and exits with status 130. With
    --checkpoint-every, the same command resumes a run that was killed.

    Examples:

      graphkin fit

      graphkin fit --method grace --seed 1 --out runs/grace-1

      graphkin fit my-folder --epochs 500 --set beta=0.5 --set drop_edges=0.1,0.3 --format parquet

      graphkin fit edges.csv --nodes nodes.csv --label kind --ignore name

      graphkin fit edges.csv --features degree

      graphkin fit --set tau_pos=0.1 --set tau_neg=0.1 --json > result.json

      graphkin fit large.npz --memory 8GiB

      graphkin fit my-folder --hold-out-edges 0.1

      graphkin fit my-folder --preset runs/tune-my-folder-kin/settings.toml

      torchrun --nproc-per-node 4 -m graphkin fit large.npz
    """

    graph: GraphArgument = DEFAULT
    method: MethodOption = None
    seed: SeedOption = 0
    epochs: Annotated[int | None, typer.Option(help="Default: the method's setting for this graph.")] = None
    device: DeviceOption = "auto"
    out: Annotated[Path | None, typer.Option(help="Folder for the results. Default: runs/GRAPH-METHOD-seedN.")] = None
    settings: SetOption = None
    preset: Annotated[
        str | None, typer.Option(help="Use the shipped settings of this dataset, or those of a .toml file that tune wrote.")
    ] = None
    memory: MemoryOption = None
    hold_out_edges: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", help="Train without this share of the edges, and score how well the embeddings predict them."
        ),
    ] = None
    checkpoint_every: CheckpointOption = None
    splits: SplitsOption = 5
    kind: Annotated[str, typer.Option("--format", help="Format of the embeddings: npy, parquet or csv, with node ids.")] = "npy"
    baselines: BaselinesOption = True
    quiet: QuietOption = False
    overwrite: OverwriteOption = False
    as_json: JsonOption = False

    @property
    def resumes(self) -> bool:
        return self.checkpoint_every is not None

    def chosen_settings(self) -> dict[str, Any]:
        return parse_settings(self.settings or []) | ({} if self.epochs is None else {"epochs": self.epochs})


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """NAME=VALUE with numbers, true, false, none, words, and lists separated by commas."""
    settings = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name or not text:
            raise SettingError(f"--set takes NAME=VALUE, such as beta=0.5, found {pair!r}.")
        values = [parse_value(part.strip()) for part in text.split(",")]
        settings[name.strip().replace("-", "_")] = tuple(values) if len(values) > 1 else values[0]
    return settings


def parse_value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
