"""Tables and figures as data: which methods on which graphs, by which protocol, with how many seeds, beside which numbers."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from graphkin.errors import InputError, SettingError, check_choice, check_whole, unknown
from graphkin.methods import Method, ideal
from graphkin.presets import method_named, presets

NAMES = ("grace-ratios", "gca", "graph-mlp", "graph-mlp-few-labels", "ablation-grace", "ablation-graph-mlp")
"""the paper's tables and figures, in the order in which they are run"""
SEARCHES = ("search-grace", "search-gca")
"""how settings were found that the paper does not give; not part of "all" """
MEASURES = {
    "grace": ("2 %", "4 %", "6 %", "8 %", "10 %"),
    "gca": ("test",),
    "public": ("test",),
    "few-labels": None,
}
"""what a run by a protocol measures; few-labels: any number of labels of a class"""
BASELINES = ("raw features", "propagated features", "untrained encoder")


@dataclass(frozen=True, eq=False)
class Row:
    """A method or a baseline, with settings for all datasets and, in ``on``, for single ones."""

    name: str
    method: str | None = None
    baseline: str | None = None
    ideal: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    on: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    seeds: int | Mapping[str, int] | None = None
    """how many; of the experiment where not given"""
    published_as: str | None = None
    """its name in ``published``; its own by default"""

    def __post_init__(self) -> None:
        if self.baseline is not None:
            check_choice("baseline", self.baseline, BASELINES)
        if self.method is None and self.baseline in (None, "untrained encoder"):
            raise SettingError(f"row {self.name!r} needs a method.")

    def chosen(self, dataset: str, epochs: int | None = None) -> Method | None:
        """The method with all its settings on a dataset; None for a baseline that has none."""
        if self.method is None:
            return None
        base = method_named(self.method).name.partition("+")[0]
        known = dataset.removesuffix("-bundled") in presets(base)
        method = method_named(self.method, dataset if known else None)
        method = method.configure(**{**self.settings, **self.on.get(dataset, {})})
        if self.ideal:
            method = ideal(method)
        return method if epochs is None else method.configure(epochs=epochs)


@dataclass(frozen=True, eq=False)
class Experiment:
    name: str
    title: str
    source: str
    protocol: str
    seeds: int
    datasets: tuple[str, ...]
    measures: tuple[str, ...]
    rows: tuple[Row, ...]
    base: str | None = None
    """the row that others are compared with, seed by seed"""
    axis: str | None = None
    """what the measures are points of, for a figure"""
    first_seed: int = 0
    published_seeds: int = 0
    """of the published numbers; 0: as many as here"""
    published: Mapping[str, Mapping[str, Mapping[str, tuple[float, float]]]] = field(default_factory=dict)
    """mean and standard deviation by measure, row and dataset"""

    def __post_init__(self) -> None:
        check_choice("protocol", self.protocol, MEASURES)
        check_whole("seeds", self.seeds, at_least=1)
        allowed = MEASURES[self.protocol]
        for measure in self.measures:
            if allowed is not None:
                check_choice("measure", measure, allowed)
            elif not measure.isdecimal():
                raise SettingError(f"measures of few-labels are labels of a class, such as '3', found {measure!r}.")
        names = [row.name for row in self.rows]
        if not names or len(set(names)) < len(names):
            raise SettingError(f"{self.name} needs rows with different names, found {names}.")
        if self.base is not None:
            check_choice("base", self.base, names)

    def seeds_of(self, row: Row, dataset: str) -> range:
        wanted = row.seeds.get(dataset) if isinstance(row.seeds, Mapping) else row.seeds
        return range(self.first_seed, self.first_seed + (wanted or self.seeds))

    @property
    def in_paper(self) -> int:
        """Seeds behind a published number."""
        return self.published_seeds or self.seeds

    def published_for(self, row: Row, dataset: str, measure: str) -> tuple[float, float] | None:
        found = self.published.get(measure, {}).get(row.published_as or row.name, {}).get(dataset)
        return None if found is None else (float(found[0]), float(found[1]))

    def only(
        self, datasets: list[str] | None = None, rows: list[str] | None = None, seeds: int | None = None
    ) -> Experiment | None:
        """The same with some of its datasets and rows, and with this number of seeds; None if nothing is left."""
        kept = tuple(name for name in self.datasets if not datasets or name in datasets)
        left = tuple(row for row in self.rows if not rows or row.name in rows)
        if not kept or not left:
            return None
        base = self.base if any(row.name == self.base for row in left) else None
        if seeds is None:
            return replace(self, datasets=kept, rows=left, base=base)
        check_whole("seeds", seeds, at_least=1)
        left = tuple(replace(row, seeds=1 if row.seeds == 1 else None) for row in left)
        return replace(self, datasets=kept, rows=left, base=base, seeds=seeds, published_seeds=self.in_paper)


def experiments_named(
    names: list[str], datasets: list[str] | None = None, rows: list[str] | None = None, seeds: int | None = None
) -> list[Experiment]:
    """Experiments by name, "all" of them in one word, with only some datasets or rows and another number of seeds if wanted."""
    if not names:
        raise SettingError(f"say what to reproduce: {', '.join(NAMES)}, all, or a file.toml.")
    chosen = [
        experiment_named(name) for name in dict.fromkeys(n for given in names for n in (NAMES if given == "all" else (given,)))
    ]
    for what, wanted, allowed in (
        ("dataset", datasets, {name for experiment in chosen for name in experiment.datasets}),
        ("row", rows, {row.name for experiment in chosen for row in experiment.rows}),
    ):
        for name in wanted or ():
            check_choice(what, name, sorted(allowed))
    reduced = (experiment.only(datasets, rows, seeds) for experiment in chosen)
    return [experiment for experiment in reduced if experiment is not None]


def experiment_named(name: str) -> Experiment:
    """One of the paper's, or a file of the same form."""
    if name in (*NAMES, *SEARCHES):
        text = resources.files("graphkin.experiments").joinpath("definitions", f"{name}.toml").read_text(encoding="utf-8")
        return parse(name, text)
    path = Path(name)
    if path.suffix != ".toml":
        raise unknown("experiment", name, (*NAMES, *SEARCHES, "all", "a file.toml"))
    if not path.is_file():
        raise SettingError(f"no experiment file at {path}.")
    return parse(path.stem, path.read_text(encoding="utf-8", errors="replace"))


def parse(name: str, text: str) -> Experiment:
    """An experiment from TOML. A row with ``grid`` stands for one row for each combination of its values."""
    try:
        given = tomllib.loads(text)
        rows = tuple(Row(**entry) for row in given.pop("rows", []) for entry in _combinations(row))
        given |= {key: tuple(given.get(key, ())) for key in ("datasets", "measures")}
        experiment = Experiment(name=name, rows=rows, **{"source": "", **given})
        for row, dataset in itertools.product(experiment.rows, experiment.datasets):
            row.chosen(dataset)
    except (tomllib.TOMLDecodeError, TypeError, AttributeError) as error:
        raise SettingError(f"experiment {name} cannot be read: {error}.") from error
    except InputError as error:
        raise SettingError(f"experiment {name}: {error}") from error
    return experiment


def _combinations(row: dict[str, Any]) -> list[dict[str, Any]]:
    grid = row.pop("grid", None)
    if grid is None:
        return [row]
    found = []
    for values in itertools.product(*grid.values()):
        point = dict(zip(grid, values, strict=True))
        shown = ", ".join(f"{key} {value}" for key, value in point.items())
        found.append({**row, "name": f"{row['name']}, {shown}", "settings": {**row.get("settings", {}), **point}})
    return found
