"""Write docs/results.md and the short table of README.md from the committed runs: ``python scripts/results_pages.py``."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from graphkin.evaluation.free import BEST_FREE
from graphkin.experiments import FREE, KIN, NAMES, SEARCHES, SHIPPED, Experiment, ExperimentRow, experiment_named
from graphkin.experiments.published import published
from graphkin.experiments.store import Store
from graphkin.experiments.summary import Cell, Summary, summarise
from graphkin.graphs.datasets import bundled_cora
from graphkin.methods import method_named
from graphkin.report.markdown import tables_as_markdown
from graphkin.report.reading import against_published, cell_of, enumerated, mark, progress_of, signed, spread
from graphkin.report.weights import diagnose

ROOT = Path(__file__).parent.parent
RUNS = ROOT / "docs" / "results" / "reproduction.json"
PAGE, README = ROOT / "docs" / "results.md", ROOT / "README.md"
KIN_PAGE = ROOT / "docs" / "kin.md"
LIKE_OURS = (None, "gca")
"""protocols that fit a probe on a tenth of the nodes and choose it by validation nodes"""
KIN_MARKS = "<!-- runs of kin -->\n", "<!-- end of runs of kin -->"
START, END = "<!-- results -->\n", "<!-- end of results -->"
SHORT = {"grace-ratios": "10 %", "gca": "test", "graph-mlp": "test"}
BARS = {"grace-ratios": ("free", "10 %"), "gca": ("free-gca", "test")}
"""the experiment whose best free row stands beside a short table's, by the same protocol, and its measure"""

INTRODUCTION = """# Results

This page shows how the methods score on the paper's graphs, compared with the published numbers and
with training-free baselines. `python scripts/results_pages.py` writes it from [the stored
runs](results/reproduction.json), so no number is typed by hand.

The [leaderboard](leaderboard.md) has all methods under one protocol, with ranks and costs.

The runs come from `graphkin reproduce` on one NVIDIA H200. Most rows without training, and most
runs of untuned kin, ran on a CPU. [What has been run](#what-has-been-run) lists what is complete
and what is missing. For plots of the same runs, and the commit of each ("-dirty" means uncommitted
changes):

```sh
graphkin report docs/results/reproduction.json --out results.html
```

## How to read the tables

- **Reference rows.** Raw features, propagated features and an untrained encoder need no training.
  The ideal objective sees every label; it is meant as an upper bound.
- **Pooling.** "GRACE+" and "GCA+" are the paper's equation ("sum" pooling). Rows with mean pooling
  are what the authors' programs compute, with the authors' settings.
- **Untuned** rows use 10 effective positives, 90 % effective negatives and one β on all graphs.
- **Seeds.** Every seed is a new initialisation and, where splits are random, a new split. A base
  method and its "+" share both, so gains are paired. On pubmed and dblp, the parts, mean pooling
  and the untuned row use 10 seeds.
- **Parts.** G is structure only (β = 0) and F is features only (β = 1); nothing else changes. All
  settings fix τ_p, except GRACE+ with "sum" pooling on pubmed and dblp. With a fixed τ_p, the
  number of effective positives depends on β: for GRACE+ on cora, the median anchor has {whole}
  effective positives out of {nodes} nodes, but {structure} with structure only and {features} with
  features only. The paper does not say whether it tuned each part. With the settings of the full
  method, {below} of the {cells} cells of G and F, with either pooling, are significantly below the
  paper's.
- **Precision.** Above 4,096 nodes, the objective multiplies in bf16, and in some runs the encoder
  multiplies in TF32 ([Performance](performance.md#precision)).
- **Wiki-CS** is defined (`graphkin reproduce gca --datasets wikics`) but was not run, because its
  file was not available.

**Collapse on photo.** The authors' learning rate on photo is 0.1. With it, some runs collapse in
their first epochs: all embeddings point in the same direction and stay that way. A sentence above
the table counts these runs. You can see it on a CPU in float32:

```sh
graphkin reproduce gca --datasets photo --rows "ideal (sees all labels)" --seeds 2 --epochs 18 --device cpu
```
"""
IN_SHORT = """## In short

The default method, `kin`, the paper's methods, and the best training-free row ("best free"): test
accuracy in percent by protocol grace. A dash means that the runs are still missing.

"Tuned" takes, for each graph, the best of 5 to 16 settings by validation accuracy on seeds of no
table ([kin](kin.md#tuned-to-one-graph)). "Best published" is the best number of others that we know
of with 10/10/80 splits, a probe fitted on the 10 % and nothing chosen by test nodes (sources:
`experiments/published.toml`). GOUDA reports more, 86.1 on Cora, 74.6 on Citeseer and 87.55 on
Pubmed, but with settings that the same test nodes chose.
"""
PAPERS_IN_SHORT = """The paper's methods next to the published numbers, each by the protocol of its table:
"""
NOT_RUN = "–"
SEARCHED = """## How settings were searched

Settings were chosen by mean validation accuracy only, on seeds that no table uses
(`graphkin reproduce search-grace search-gca search-graph-mlp`): those of GRACE+ and GCA+ for "sum"
pooling, with fewer epochs on the larger graphs, and those of Graph-MLP+. The chosen settings are in
bold; of equal ones, the first was taken. Where the authors' settings won, they were kept. A graph
is listed when its search is complete.
"""
COVERAGE = """## What has been run

A result is one measure of one row on one graph with one seed. `graphkin reproduce EXPERIMENT` runs
what is missing.
"""
MOST_NAMED = 5
"""Up to this many missing rows are named; if there are more, they are only counted."""


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
    parts = [introduction(), *short, tables_as_markdown(shown), SEARCHED, *map(search_table, searches()), COVERAGE, coverage()]
    return "".join(map(_wrapped, "\n".join(parts).splitlines(keepends=True)))


def _wrapped(line: str) -> str:
    """A line of prose at 100 characters; tables and commands as they are."""
    if line.startswith(("|", "graphkin ")) or len(line) <= 100:
        return line
    return textwrap.fill(line, 100, break_long_words=False, break_on_hyphens=False) + "\n"


def coverage() -> str:
    """How many results of every experiment are complete, and what is missing."""
    lines = ["| experiment | complete | wanted | missing |", "|---|---|---|---|"]
    for summary in summaries(SHIPPED):
        complete, wanted = progress_of(summary)
        lines.append(f"| `{summary.experiment.name}` | {complete:,} | {wanted:,} | {_missing(summary)} |")
    return "\n".join(lines) + "\n"


def _missing(summary: Summary) -> str:
    complete, wanted = progress_of(summary)
    if not complete or complete == wanted:
        return "nothing" if complete else "everything"
    experiment = summary.experiment
    names = [row.name for row in experiment.rows]
    rows = [name for name in names if not any(_count(summary, name, dataset) for dataset in summary.datasets)]
    graphs = [name for name in experiment.datasets if not any(_count(summary, row, name) for row in names)]
    parts = [f"{len(rows)} of {len(names)} rows" if len(rows) > MOST_NAMED else ", ".join(rows)] if rows else []
    parts += [f"all runs on {', '.join(map(experiment.heading, graphs))}"] if graphs else []
    return "; ".join(parts) or "some seeds"


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
    return max(cell_of(summary, row, dataset, measure).count for measure in summary.experiment.measures)


def searches() -> list[Summary]:
    """The searches for settings that are finished on a graph."""
    return [summary for summary in summaries(SEARCHES) if chosen(summary)]


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
    """The row with the best validation accuracy on every graph where all rows were run with all seeds; the first of equals."""
    experiment = summary.experiment
    (measure,) = experiment.measures
    searched = [
        name
        for name in summary.datasets
        if all(summary.cell(row.name, name, measure).count == len(experiment.seeds_of(row, name)) for row in experiment.rows)
    ]

    def quality(row: ExperimentRow, dataset: str) -> float:
        return round(summary.cell(row.name, dataset, measure).val_mean, 9)

    return {name: max(experiment.rows, key=lambda row: quality(row, name)).name for name in searched}


def search_table(summary: Summary) -> str:
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
    """kin beside the best training-free row, the better of GRACE+ and GCA+, and others' numbers."""
    names = ["", "best free", "GRACE+ or GCA+", "kin", "gain over best free", "kin, tuned on validation", "best published"]
    headings = [f"| {' | '.join(names)} |".replace("|  |", "| |"), "|---" * len(names) + "|"]
    return "\n".join([*headings, *(row for summary in _beside_the_bar() for row in _kin_rows(summary)), ""])


def best_published(dataset: str) -> str:
    """The best of others whose probe is fitted on a tenth of the nodes, and not chosen by test nodes."""
    entries = [entry for entry in published() if dataset in entry.values and entry.protocol in LIKE_OURS]
    best = max(entries, key=lambda entry: float(np.max(entry.values[dataset])), default=None)
    return NOT_RUN if best is None else f"{np.max(best.values[dataset]):.2f} ({best.row})"


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
        others = [_with_seeds(cells.get("kin (tuned)")), best_published(dataset)]
        yield f"| {' | '.join([experiment.heading(dataset), *texts, gained, *others])} |"


def _with_seeds(cell: Cell | None) -> str:
    if cell is None or not cell.count:
        return NOT_RUN
    seeds = "" if cell.count >= cell.wanted else f" ({cell.count} of {cell.wanted} seeds)"
    return spread(cell.mean, cell.std) + seeds


def kin_runs() -> str:
    """On which graphs the shipped version of kin was run, in a sentence."""
    found = []
    for summary in _beside_the_bar():
        experiment, (measure,) = summary.experiment, summary.experiment.measures
        for dataset in summary.datasets:
            cell = summary.cell("kin", dataset, measure)
            if cell.count:
                seeds = "" if cell.count >= cell.wanted else f" ({cell.count} of {cell.wanted} seeds)"
                found.append(experiment.heading(dataset) + seeds)
    return _wrapped(f"So far, the shipped version of kin has been run on {enumerated(found) if found else 'no graph'}.\n")


def between(start: str, text: str, made: str, end: str = END) -> str:
    """The text with what was made between two marks."""
    before, rest = text.split(start)
    return before + start + made + end + rest.split(end, 1)[1]


def readme(text: str) -> str:
    return between(START, text, kin_table())


def kin_page(text: str) -> str:
    start, end = KIN_MARKS
    return between(start, text, kin_runs(), end)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    README.write_text(readme(README.read_text(encoding="utf-8")), encoding="utf-8")
    KIN_PAGE.write_text(kin_page(KIN_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
