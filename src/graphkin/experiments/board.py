"""A leaderboard: the rows of experiments of protocol "leaderboard", side by side on all of their graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from graphkin.errors import SettingError
from graphkin.evaluation.protocols import HABITS
from graphkin.experiments.definition import Experiment, ExperimentRow
from graphkin.experiments.store import Store
from graphkin.experiments.summary import Cell, Cost, Summary, summarise

PROTOCOL = "leaderboard"
MEASURES = ("accuracy", "nmi", "ari", "sim@5")
NOT_RUN, NOT_ASKED = "not run", "not asked for"


@dataclass(frozen=True, eq=False)
class Board:
    rows: Mapping[str, ExperimentRow]
    datasets: tuple[str, ...]
    measures: tuple[str, ...]
    """of :data:`MEASURES` those that an experiment asks for"""
    cells: Mapping[tuple[str, str, str], Cell]
    """by row, dataset and measure or habit; a row that is not asked for on a dataset has none"""
    cut_to: int | None = None
    """epochs of every method, where the user chose another number: such runs are no results"""

    def cell(self, row: str, dataset: str, measure: str) -> Cell:
        return self.cells.get((row, dataset, measure), Cell({}, {}, 0))

    def present(self, dataset: str, measure: str) -> dict[str, Cell]:
        """The rows with results on a graph."""
        return {row: cell for row in self.rows if (cell := self.cell(row, dataset, measure)).count}

    def missing(self, row: str, dataset: str, measure: str) -> str:
        """Why a cell is empty."""
        return NOT_RUN if self.cell(row, dataset, measure).wanted else NOT_ASKED

    def cost(self, row: str, dataset: str) -> tuple[str, Cost] | None:
        """Of training, on the machine with the most runs of this cell; None where nothing was trained or run."""
        found = [cost for measure in self.measures for cost in self.cell(row, dataset, measure).costs.items()]
        return max(found, key=lambda one: one[1].runs, default=None)


def board_of(experiments: Sequence[Experiment], store: Store, epochs: int | None = None) -> Board | None:
    """All experiments of the protocol together, with the habits of their trained rows; None where there are none."""
    chosen = [one for one in experiments if one.protocol == PROTOCOL and set(one.measures) & set(MEASURES)]
    asked = [one for experiment in chosen for one in (experiment, _habits(experiment)) if one is not None]
    return joined([summarise(one, store, epochs) for one in asked]) if asked else None


def _habits(experiment: Experiment) -> Experiment | None:
    """The same runs as others evaluate them; best free leaves that out."""
    rows = tuple(row for row in experiment.rows if row.trained)
    return replace(experiment, measures=(*HABITS, "gca"), rows=rows, base=None, published={}) if rows else None


def joined(found: Sequence[Summary]) -> Board:
    """Experiments side by side.

    A row has the same settings in all of them: two settings under one name would be one row of the table.
    """
    rows: dict[str, ExperimentRow] = {}
    cells: dict[tuple[str, str, str], Cell] = {}
    known: dict[tuple[str, str], object] = {}
    for summary in found:
        for row in summary.experiment.rows:
            rows.setdefault(row.name, row)
            for dataset in summary.experiment.datasets:
                settings = (row.baseline, row.chosen(dataset, summary.cut_to))
                if known.setdefault((row.name, dataset), settings) != settings:
                    raise SettingError(f"row {row.name!r} must have one setting on {dataset}, found two: give it another name.")
                wanted = Cell({}, {}, len(summary.experiment.seeds_of(row, dataset)))
                for measure in summary.experiment.measures:
                    key = row.name, dataset, measure
                    cells.setdefault(key, summary.cells.get(key, wanted))
    asked = {measure for summary in found for measure in summary.experiment.measures}
    datasets = dict.fromkeys(dataset for summary in found for dataset in summary.experiment.datasets)
    measures = tuple(measure for measure in MEASURES if measure in asked)
    return Board(rows, tuple(datasets), measures, cells, found[0].cut_to)
