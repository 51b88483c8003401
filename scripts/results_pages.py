"""Write docs/results.md and the short table of README.md from the committed runs: ``python scripts/results_pages.py``."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

from graphkin.evaluation.free import BEST_FREE
from graphkin.experiments import FREE, KIN, NAMES, SEARCHES, Experiment, ExperimentRow, experiment_named
from graphkin.experiments.store import Store
from graphkin.experiments.summary import Cell, Summary, summarise
from graphkin.graphs.datasets import bundled_cora
from graphkin.methods import method_named
from graphkin.report.markdown import tables_as_markdown
from graphkin.report.reading import against_published, mark, signed, spread
from graphkin.report.weights import diagnose

ROOT = Path(__file__).parent.parent
RUNS = ROOT / "docs" / "results" / "reproduction.json"
PAGE, README = ROOT / "docs" / "results.md", ROOT / "README.md"
START, END = "<!-- results -->\n", "<!-- end of results -->"
SHORT = {"grace-ratios": "10 %", "gca": "test", "graph-mlp": "test"}
BARS = {"grace-ratios": ("free", "10 %"), "gca": ("free-gca", "test")}
"""the experiment whose best free row stands beside a short table's, by the same protocol, and its measure"""

INTRODUCTION = """# Results

Made by `python scripts/results_pages.py` from [the committed runs](results/reproduction.json), which `graphkin reproduce`
wrote on one NVIDIA H200 (most rows without training: on a CPU); nothing here is typed. Beside the methods stand, where
they apply, rows that cost nothing (raw and propagated features, an untrained encoder) and the ideal objective, which sees
every label. A page with plots of the same runs: `graphkin report docs/results/reproduction.json --out results.html`; it
names the commits, "-dirty" where the code had changes that were not committed.

What to know before reading:
- "GRACE+" and "GCA+" are the paper's equation ("sum" pooling); the rows with mean pooling are what the authors' programs
  compute, with their settings. "Untuned" has 10 effective positives, 90 % effective negatives and one β on all graphs.
- The parts change only what they name (G: β = 0, F: β = 1). Where settings name τ_p, which is everywhere but in GRACE+
  with "sum" pooling on pubmed and dblp, how many nodes attract changes with that: in GRACE+ on cora the median anchor has
  {whole} effective positives, {structure} with structure only and {features} with features only, of {nodes} nodes. The
  paper does not say whether it tuned each part; at the settings of the whole, {below} of the {cells} cells of G and F,
  with either pooling, are significantly below the paper's.
- On pubmed and dblp the parts, mean pooling and the untuned row ask for 10 seeds.
- Every seed is a new initialisation and, where splits are random, a new split. A base and its "+" share both, so gains
  are paired.
- Beyond 4,096 nodes products in the objective are in bf16, and in some runs those of the encoder in TF32
  ([precision](performance.md)).
- On photo the authors' learning rate is 0.1, with which some runs collapse in their first epochs: all nodes point the
  same way, and stay so. A sentence above the table counts them. On a CPU in float32 it is seen with
  `graphkin reproduce gca --datasets photo --rows "ideal (sees all labels)" --seeds 2 --epochs 18 --device cpu`.
- Wiki-CS is defined (`graphkin reproduce gca --datasets wikics`) and was not run: its file was not at hand.
"""
IN_SHORT = """## In short

The default method, `kin`, the paper's methods, and the best training-free row ("best free"): test accuracy in percent by
protocol grace. A dash means that the runs are still missing.
"""
PAPERS_IN_SHORT = """The paper's methods next to the published numbers, each by the protocol of its table:
"""
NOT_RUN = "–"
SEARCHED = """## What was searched
Settings for "sum" pooling were chosen by mean validation accuracy alone, on seeds that no table uses, with fewer epochs
on the larger graphs (`graphkin reproduce search-grace search-gca`; at equal accuracy the first). The chosen ones are in
bold; where the authors' own won, they stayed.
"""


def summaries(names: tuple[str, ...]) -> list[Summary]:
    return [_summary(name) for name in names]


@functools.cache
def _summary(name: str) -> Summary:
    return summarise(experiment_named(name), _runs())


@functools.cache
def _runs() -> Store:
    return Store(RUNS, read_only=True)


def introduction() -> str:
    cora = bundled_cora()
    parts = {"whole": "grace+", "structure": "grace+(g)", "features": "grace+(f)"}
    counts = {part: diagnose(cora, method_named(name, "cora")).effective_positives for part, name in parts.items()}
    marks = _beside_the_paper("ablation-grace", ("G", "F"))
    return INTRODUCTION.format(
        nodes=f"{cora.num_nodes:,}",
        below=marks.count("▼"),
        cells=len(marks),
        **{part: f"{count:,.0f}" for part, count in counts.items()},
    )


def _beside_the_paper(name: str, published_as: tuple[str, ...]) -> list[str]:
    """▲, ▼ or nothing for every cell of the rows that have these names in the paper."""
    (summary,) = summaries((name,))
    rows = [row.name for row in summary.experiment.rows if row.published_as in published_as]
    differences = [against_published(summary, cell) for (row, _, _), cell in summary.cells.items() if row in rows]
    return [mark(difference) for difference in differences if difference is not None]


def page() -> str:
    shown = [*kin(), *summaries(NAMES), *bars()]
    short = [IN_SHORT, kin_table(), PAPERS_IN_SHORT, short_table()]
    return "\n".join([introduction(), *short, tables_as_markdown(shown), SEARCHED, *map(_search, searches())])


def kin() -> list[Summary]:
    """The experiments of our own method in which it was run."""
    return [summary for summary in _rows_that_ran(KIN) if any(row.name == "kin" for row in summary.experiment.rows)]


def _rows_that_ran(names: tuple[str, ...]) -> list[Summary]:
    found = []
    for summary in summaries(names):
        ran = [row for row in summary.experiment.rows if any(_count(summary, row.name, name) for name in summary.datasets)]
        fewer: Experiment | None = summary.experiment.only(rows=[row.name for row in ran]) if ran else None
        found += [] if fewer is None else [summarise(fewer, _runs())]
    return found


def _count(summary: Summary, row: str, dataset: str) -> int:
    return max(summary.cell(row, dataset, measure).count for measure in summary.experiment.measures)


def searches() -> list[Summary]:
    """The searches for settings that were run."""
    return [summary for summary in summaries(SEARCHES) if summary.runs[0]]


def bars() -> list[Summary]:
    """The experiments of training-free rows that were run."""
    return _rows_that_ran(FREE)


def best_free_cell(name: str, dataset: str) -> str:
    """The best training-free row by the protocol of an experiment; "–" where it was not run."""
    bar, measure = BARS.get(name, ("", ""))
    found = next((one for one in bars() if one.experiment.name == bar and dataset in one.datasets), None)
    cell = None if found is None else found.cell(BEST_FREE, dataset, measure)
    return NOT_RUN if cell is None or not cell.count else spread(cell.mean, cell.std)


def chosen(summary: Summary) -> dict[str, str]:
    """The row with the best validation accuracy on every graph that was searched; the first of equals."""
    experiment = summary.experiment
    (measure,) = experiment.measures

    def quality(row: ExperimentRow, dataset: str) -> float:
        return round(summary.cell(row.name, dataset, measure).val_mean, 9)

    return {name: max(experiment.rows, key=lambda row: quality(row, name)).name for name in summary.datasets}


def _search(summary: Summary) -> str:
    experiment = summary.experiment
    (measure,) = experiment.measures
    best = chosen(summary)
    shown = list(best)
    lines = [["validation accuracy, %", *shown], ["---"] * (len(shown) + 1)]
    for row in experiment.rows:
        values = {name: f"{summary.cell(row.name, name, measure).val_mean:.2f}" for name in shown}
        lines.append([row.name, *(f"**{text}**" if best[name] == row.name else text for name, text in values.items())])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def short_table() -> str:
    """Base and "+" on every graph, with the published numbers, propagated features and, where it was run, the best free row."""
    headings = ["", "base", "published", "+", "published", "gain", "propagated features", *([BEST_FREE] if bars() else [])]
    lines = [f"| {' | '.join(headings)} |".replace("|  |", "| |")]
    lines.append("|---" * len(headings) + "|")
    for summary in summaries(tuple(SHORT)):
        experiment = summary.experiment
        base, measure = experiment.base, SHORT[experiment.name]
        assert base is not None
        for dataset in summary.datasets:
            cells = [summary.cell(name, dataset, measure) for name in (base, f"{base}+")]
            if not all(cell.count for cell in cells):
                continue
            gain = cells[1].paired_with(cells[0])
            assert gain is not None
            found = []
            for cell in cells:
                assert cell.published is not None
                found += [_with_seeds(cell), spread(*cell.published)]
            free = summary.cell("propagated features", dataset, measure)
            gained = f"{signed(gain.points)}{mark(gain)}"
            bar = [best_free_cell(experiment.name, dataset)] if bars() else []
            cells_shown = [f"{base}, {dataset}", *found, gained, spread(free.mean, free.std), *bar]
            lines.append(f"| {' | '.join(cells_shown)} |")
    return "\n".join(lines) + "\n"


def kin_table() -> str:
    """kin beside the best training-free row and the better of GRACE+ and GCA+, on every graph with runs of the free rows."""
    headings = ["| | best free | GRACE+ or GCA+ | kin | gain over best free |", "|---" * 5 + "|"]
    return "\n".join([*headings, *(row for summary in _beside_the_bar() for row in _kin_rows(summary)), ""])


def _beside_the_bar() -> list[Summary]:
    return [summary for summary in summaries(KIN) if summary.experiment.base == BEST_FREE]


def _kin_rows(summary: Summary) -> Iterator[str]:
    experiment, (measure,) = summary.experiment, summary.experiment.measures
    for dataset in summary.datasets:
        cells = {row.name: summary.cell(row.name, dataset, measure) for row in experiment.rows}
        papers = [cell for name, cell in cells.items() if name in ("GRACE+", "GCA+") and cell.count]
        if not cells[BEST_FREE].count:
            continue
        paper = max(papers, key=lambda cell: cell.mean, default=None)
        gain = summary.gain("kin", dataset, measure)
        texts = [_with_seeds(cell) for cell in (cells[BEST_FREE], paper, cells["kin"])]
        gained = NOT_RUN if gain is None else signed(gain.points) + mark(gain)
        yield f"| {' | '.join([experiment.heading(dataset), *texts, gained])} |"


def _with_seeds(cell: Cell | None) -> str:
    if cell is None or not cell.count:
        return NOT_RUN
    seeds = "" if cell.count >= cell.wanted else f" ({cell.count} of {cell.wanted} seeds)"
    return spread(cell.mean, cell.std) + seeds


def readme(text: str) -> str:
    before, rest = text.split(START)
    return before + START + kin_table() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    README.write_text(readme(README.read_text(encoding="utf-8")), encoding="utf-8")
