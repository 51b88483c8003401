"""Experiments from TOML."""

from __future__ import annotations

import dataclasses
import itertools
import math
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING
from typing import Any

from graphkin.errors import InputError, SettingError, check_choice, check_text, first_line
from graphkin.evaluation.protocols import PROTOCOLS
from graphkin.experiments.definition import Experiment, ExperimentRow, check_form, is_table_of

MOST_ROWS = 10_000


def parse(name: str, text: str) -> Experiment:
    """An experiment from TOML. A row with ``grid`` stands for one row for each combination of its values."""
    try:
        given = tomllib.loads(text)
        listed = given.pop("rows", [])
        tables = isinstance(listed, list) and all(isinstance(row, dict) for row in listed)
        check_form(tables, "rows", "written as [[rows]]", listed)
        rows = tuple(_row(entry) for row in listed for entry in _combinations(row))
        for key in ("datasets", "measures"):
            check_form(isinstance(given.get(key), list), key, "a list of strings, not empty", given.get(key))
            given[key] = tuple(given[key])
        _check_keys(given, Experiment, "name", "rows", also=("rows",))
        experiment = Experiment(name=name, rows=rows, **{"source": "", **given})
        _check_mentioned(experiment)
        _check_methods(experiment)
    except (tomllib.TOMLDecodeError, TypeError, RecursionError) as error:
        raise SettingError(f"experiment {name} cannot be read: {first_line(error)}.") from error
    except InputError as error:
        raise SettingError(f"experiment {name}: {error}") from error
    return experiment


def _row(entry: dict[str, Any]) -> ExperimentRow:
    _check_keys(entry, ExperimentRow, also=("grid",))
    return ExperimentRow(**entry)


def _check_keys(given: Mapping[str, Any], kind: type, *not_given: str, also: tuple[str, ...] = ()) -> None:
    """Refuse keys that are no fields (or one of ``also``), and missing ones without a default."""
    known = [one for one in dataclasses.fields(kind) if one.name not in not_given]
    for name in given:
        check_choice("key", name, [*(one.name for one in known), *also])
    for one in known:
        if one.name not in (*given, "source") and one.default is MISSING and one.default_factory is MISSING:
            raise SettingError(f"{one.name} is missing.")


def _check_methods(experiment: Experiment) -> None:
    """Every row's method takes its settings, and trains with labels only where that can be scored."""
    for row, dataset in itertools.product(experiment.rows, experiment.datasets):
        method = row.chosen(dataset)
        with_labels = method is not None and row.baseline is None and method.needs_labels
        if with_labels and not experiment.scored_by.own_classifier:
            fitting = [name for name, protocol in PROTOCOLS.items() if protocol.own_classifier]
            raise SettingError(
                f"row {row.name!r} trains with labels, which goes with protocol {' or '.join(fitting)}, "
                f"found {experiment.protocol}."
            )


def _check_mentioned(experiment: Experiment) -> None:
    """Settings and published numbers name only rows, datasets and measures of the experiment."""
    for row in experiment.rows:
        named = (table for table in (row.on, row.seeds, row.trials) if isinstance(table, Mapping))
        for dataset in (dataset for table in named for dataset in table):
            check_choice(f"dataset of row {row.name!r}", dataset, experiment.datasets)
    names = dict.fromkeys(row.published_as or row.name for row in experiment.rows)
    for measure, rows in experiment.published.items():
        check_choice("published measure", measure, experiment.measures)
        for name, values in rows.items():
            check_choice("published row", name, names)
            for dataset in values:
                check_choice("published dataset", dataset, experiment.datasets)


def _combinations(row: dict[str, Any]) -> list[dict[str, Any]]:
    grid = row.pop("grid", None)
    if grid is None:
        return [row]
    check_form(is_table_of(grid, list) and all(grid.values()), "grid", "a table of lists, none empty", grid)
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
