"""Time and memory against the number of nodes, from a file of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphkin.errors import SettingError, check_installed
from graphkin.support.files import check_writable, write_whole

FORMATS = (".png", ".svg", ".pdf")


def check_plot(path: Path) -> None:
    """Refuse a ``path`` that cannot be plotted to, before anything is measured."""
    check_installed("--plot", "matplotlib")
    if path.suffix not in FORMATS:
        raise SettingError(f"a plot must be a {', '.join(FORMATS)} file, found {path}.")
    check_writable(path.parent)


def plot(runs: list[dict[str, Any]], path: Path, device: str) -> None:
    """A column for each kind of weights, a line for each contender. Of several runs that measured the same, the last counts."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    latest: dict[tuple[str, str, int, int], dict[str, Any]] = {}
    for run in runs:
        for row in run["rows"]:
            problem = row["problem"]
            if row["seconds"] is not None and problem.get("device") == device and "weights" in problem:
                latest[problem["weights"], row["contender"], problem["width"], problem["nodes"]] = row
    kinds = sorted({key[0] for key in latest})
    if not kinds:
        raise SettingError(f"there is nothing to plot: no run of the objective on {device} so far.")
    contenders = sorted({key[1] for key in latest})
    palette = pyplot.get_cmap("tab10")
    colours = {contender: palette(place % 10) for place, contender in enumerate(contenders)}
    figure, axes = pyplot.subplots(2, len(kinds), figsize=(4 * len(kinds), 7), squeeze=False, sharex=True, sharey="row")
    for column, kind in enumerate(kinds):
        axes[0][column].set_title(f"{kind}, {device}")
        for contender, width in sorted({key[1:3] for key in latest if key[0] == kind}):
            points = sorted((key[3], row) for key, row in latest.items() if key[:3] == (kind, contender, width))
            nodes = [count for count, _ in points]
            style = {"color": colours[contender], "marker": "o", "markersize": 4, "label": f"{contender}, d = {width}"}
            axes[0][column].plot(nodes, [1e3 * row["seconds"] for _, row in points], **style)
            axes[1][column].plot(nodes, [(row["peak_bytes"] or 0) / 2**30 for _, row in points], **style)
        axes[1][column].set_xlabel("nodes")
        axes[0][column].legend(fontsize=7)
    axes[0][0].set_ylabel("milliseconds, forward and backward")
    axes[1][0].set_ylabel("peak memory, GiB")
    for axis in axes.flat:
        axis.set(xscale="log", yscale="log")
        axis.grid(visible=True, which="major", alpha=0.3)
    figure.tight_layout()
    write_whole(path, lambda file: figure.savefig(file, format=path.suffix.lstrip("."), dpi=100))
    pyplot.close(figure)
