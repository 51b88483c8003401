"""Tables and figures as data: which methods on which graphs, by which protocol, with how many seeds, beside which numbers."""

from __future__ import annotations

import dataclasses
import itertools
import math
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from graphkin.errors import InputError, SettingError, check_choice, check_text, check_whole, first_line, unknown
from graphkin.methods.method import Method, ideal
from graphkin.methods.presets import method_named, presets
from graphkin.support.files import reading

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
MOST_SEEDS, MOST_ROWS = 10**6, 10_000
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
        for name in ("name", "method", "baseline", "published_as"):
            check_text(name, getattr(self, name), optional=name != "name")
        _check(isinstance(self.ideal, bool), "ideal", "true or false", self.ideal)
        _check(isinstance(self.settings, Mapping), "settings", "a table", self.settings)
        _check(_is_table_of(self.on, Mapping), "on", "a table for each dataset", self.on)
        for count in self.seeds.values() if isinstance(self.seeds, Mapping) else (self.seeds,):
            if count is not None:
                check_whole("seeds", count, at_least=1, at_most=MOST_SEEDS)
        if self.baseline is not None:
            check_choice("baseline", self.baseline, BASELINES)
        if self.method is None and self.baseline in (None, "untrained encoder"):
            raise SettingError(f"row {self.name!r} needs a method.")
        if self.method is not None and self.baseline not in (None, "untrained encoder"):
            raise SettingError(f"row {self.name!r} must have a method or a baseline, found {self.method} and {self.baseline}.")

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
        for name in ("title", "source", "protocol", "base", "axis"):
            check_text(name, getattr(self, name), optional=name in ("base", "axis"))
        for name in ("datasets", "measures"):
            listed = getattr(self, name)
            _check(bool(listed) and all(isinstance(one, str) for one in listed), name, "a list of texts, not empty", listed)
            _check(len(set(listed)) == len(listed), name, "different from each other", listed)
        check_choice("protocol", self.protocol, MEASURES)
        check_whole("seeds", self.seeds, at_least=1, at_most=MOST_SEEDS)
        check_whole("first_seed", self.first_seed, at_least=0)
        check_whole("published_seeds", self.published_seeds, at_least=0)
        self._check_published()
        allowed = MEASURES[self.protocol]
        for measure in self.measures:
            if allowed is not None:
                check_choice("measure", measure, allowed)
            elif not (measure.isascii() and measure.isdecimal() and not measure.startswith("0")):
                raise SettingError(f"measures of few-labels are labels of a class, such as '3', found {measure!r}.")
        names = [row.name for row in self.rows]
        if not names or len(set(names)) < len(names):
            raise SettingError(f"{self.name} needs rows with different names, found {names}.")
        if self.base is not None:
            check_choice("base", self.base, names)

    def _check_published(self) -> None:
        shape = "tables of measures, rows and datasets that end in [mean, deviation]"
        _check(_is_table_of(self.published, Mapping), "published", shape, self.published)
        for rows in self.published.values():
            _check(_is_table_of(rows, Mapping), "published", shape, rows)
            for value in (value for values in rows.values() for value in values.values()):
                numbers = isinstance(value, list | tuple) and len(value) == 2
                _check(
                    numbers and all(isinstance(n, int | float) and 0 <= n < math.inf for n in value), "published", shape, value
                )

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
        check_whole("seeds", seeds, at_least=1, at_most=MOST_SEEDS)
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
    with reading(path, "cannot be read as an experiment", SettingError):
        return parse(path.stem, path.read_text(encoding="utf-8", errors="replace"))


def parse(name: str, text: str) -> Experiment:
    """An experiment from TOML. A row with ``grid`` stands for one row for each combination of its values."""
    try:
        given = tomllib.loads(text)
        listed = given.pop("rows", [])
        _check(isinstance(listed, list) and all(isinstance(row, dict) for row in listed), "rows", "written as [[rows]]", listed)
        rows = tuple(_row(entry) for row in listed for entry in _combinations(row))
        for key in ("datasets", "measures"):
            _check(isinstance(given.get(key), list), key, "a list of texts, not empty", given.get(key))
            given[key] = tuple(given[key])
        _check_keys(given, Experiment, "name", "rows", also=("rows",))
        experiment = Experiment(name=name, rows=rows, **{"source": "", **given})
        _check_mentioned(experiment)
        for row, dataset in itertools.product(experiment.rows, experiment.datasets):
            method = row.chosen(dataset)
            trained_with_labels = method is not None and row.baseline is None and method.needs_labels
            if trained_with_labels and experiment.protocol not in ("public", "few-labels"):
                raise SettingError(
                    f"row {row.name!r} is trained with labels, which goes with protocol public or few-labels, "
                    f"found {experiment.protocol}."
                )
    except (tomllib.TOMLDecodeError, TypeError, RecursionError) as error:
        raise SettingError(f"experiment {name} cannot be read: {first_line(error)}.") from error
    except InputError as error:
        raise SettingError(f"experiment {name}: {error}") from error
    return experiment


def _row(entry: dict[str, Any]) -> Row:
    _check_keys(entry, Row, also=("grid",))
    return Row(**entry)


def _check_keys(given: Mapping[str, Any], kind: type, *not_given: str, also: tuple[str, ...] = ()) -> None:
    """What a dataclass needs is there, and nothing else; keys that are read ``also`` are named beside the allowed ones."""
    known = [one for one in dataclasses.fields(kind) if one.name not in not_given]
    for name in given:
        check_choice("key", name, [*(one.name for one in known), *also])
    for one in known:
        if one.name not in (*given, "source") and one.default is MISSING and one.default_factory is MISSING:
            raise SettingError(f"{one.name} is missing.")


def _check_mentioned(experiment: Experiment) -> None:
    """Settings and published numbers are of rows, datasets and measures that the experiment has."""
    for row in experiment.rows:
        for dataset in (*row.on, *(row.seeds if isinstance(row.seeds, Mapping) else ())):
            check_choice(f"dataset of row {row.name!r}", dataset, experiment.datasets)
    names = dict.fromkeys(row.published_as or row.name for row in experiment.rows)
    for measure, rows in experiment.published.items():
        check_choice("published measure", measure, experiment.measures)
        for name, values in rows.items():
            check_choice("published row", name, names)
            for dataset in values:
                check_choice("published dataset", dataset, experiment.datasets)


def _check(holds: bool, name: str, wanted: str, found: object) -> None:
    if not holds:
        shown = repr(found)
        raise SettingError(f"{name} must be {wanted}, found {shown if len(shown) <= 60 else shown[:57] + '...'}.")


def _is_table_of(value: object, kind: type) -> bool:
    return isinstance(value, Mapping) and all(isinstance(entry, kind) for entry in value.values())


def _combinations(row: dict[str, Any]) -> list[dict[str, Any]]:
    grid = row.pop("grid", None)
    if grid is None:
        return [row]
    _check(_is_table_of(grid, list) and all(grid.values()), "grid", "a table of lists, none empty", grid)
    check_text("name", row.get("name"))
    combinations = math.prod(len(values) for values in grid.values())
    if combinations > MOST_ROWS:
        raise SettingError(f"a grid may stand for at most {MOST_ROWS:,} rows, found {combinations:,}.")
    found = []
    for values in itertools.product(*grid.values()):
        point = dict(zip(grid, values, strict=True))
        shown = ", ".join(f"{key} {value}" for key, value in point.items())
        found.append({**row, "name": f"{row['name']}, {shown}", "settings": {**row.get("settings", {}), **point}})
    return found
