"""Time and memory against the number of nodes, from a file of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphkin.errors import SettingError
from graphkin.files import write_whole


def plot(runs: list[dict[str, Any]], path: Path) -> None:
    """One line for each contender and kind of weights; the last run counts where several measured the same."""
    try:
        import matplotlib
    except ImportError as error:
        raise SettingError("a plot needs matplotlib: pip install 'graphkin[plots]'.") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    latest: dict[tuple[Any, ...], dict[str, Any]] = {}
    for run in runs:
        for row in run["rows"]:
            problem = row["problem"]
            if row["seconds"] is not None and "weights" in problem:
                latest[problem["device"], problem["weights"], problem["width"], row["contender"], problem["nodes"]] = row
    kinds = sorted({key[:3] for key in latest})
    figure, axes = pyplot.subplots(2, len(kinds), figsize=(4.2 * len(kinds), 7), squeeze=False, sharex=True, sharey="row")
    for column, kind in enumerate(kinds):
        device, weights, width = kind
        axes[0][column].set_title(f"{weights}, d = {width}, {device}")
        for contender in sorted({key[3] for key in latest if key[:3] == kind}):
            points = sorted((key[4], row) for key, row in latest.items() if key[:4] == (*kind, contender))
            nodes = [count for count, _ in points]
            style = {"marker": "o", "markersize": 4, "linestyle": "--" if contender.startswith("dense") else "-"}
            axes[0][column].plot(nodes, [1e3 * row["seconds"] for _, row in points], label=contender, **style)
            axes[1][column].plot(nodes, [(row["peak_bytes"] or 0) / 2**30 for _, row in points], label=contender, **style)
        axes[1][column].set_xlabel("nodes")
        axes[0][column].legend(fontsize=7)
    axes[0][0].set_ylabel("milliseconds, forward and backward")
    axes[1][0].set_ylabel("peak memory, GiB")
    for axis in axes.flat:
        axis.set(xscale="log", yscale="log")
        axis.grid(visible=True, which="major", alpha=0.3)
    figure.tight_layout()
    write_whole(path, lambda file: figure.savefig(file, format=path.suffix.lstrip(".") or "png", dpi=110))
    pyplot.close(figure)
