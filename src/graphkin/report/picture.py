"""A map of nodes as a picture, by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphkin.errors import OutputError, check_installed, printable
from graphkin.report.map import NO_LABEL
from graphkin.support.files import write_whole

FORMATS = (".png", ".svg", ".pdf")
MOST_NAMED = 20
"""so many groups have a colour and a name; the smaller ones share grey"""
LONGEST_NAME = 40
GREY = "#b8b8b8"


def check_picture(path: Path) -> None:
    """Refuse what cannot be drawn, before anything is computed."""
    check_installed("a picture", "matplotlib", "add --no-picture")
    if path.suffix.lower() not in FORMATS:
        raise OutputError(f"a picture must end in {', '.join(FORMATS)}, found {path.name}.")


def draw(path: Path, points: np.ndarray, groups: np.ndarray, names: Sequence[str], title: str) -> None:
    """``groups`` [N] are places among the ``names``."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    counts = np.bincount(groups, minlength=len(names))
    named = [
        int(group) for group in np.argsort(-counts, kind="stable")[:MOST_NAMED] if counts[group] and names[group] != NO_LABEL
    ]
    palette = pyplot.get_cmap("tab10" if len(named) <= 10 else "tab20")
    figure, axis = pyplot.subplots(figsize=(9, 7), dpi=150)
    size = float(np.clip(20_000 / len(points), 0.5, 40))
    rest = ~np.isin(groups, named)
    style: dict[str, Any] = {"s": size, "linewidths": 0, "rasterized": True}
    if rest.any():
        others = {names[group] for group in np.unique(groups[rest])}
        axis.scatter(*points[rest].T, color=GREY, label=NO_LABEL if others == {NO_LABEL} else "others", **style)
    for place, group in enumerate(sorted(named)):
        members = groups == group
        axis.scatter(*points[members].T, color=palette(place), label=_plain(names[group]), alpha=0.8, **style)
    axis.set_title(_plain(title, 2 * LONGEST_NAME), fontsize=11, loc="left")
    axis.set(xticks=[], yticks=[])
    axis.set_frame_on(False)
    legend = axis.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=9)
    handles: list[Any] = list(legend.legend_handles)
    for handle in handles:
        handle.set_sizes([30])
    kind = path.suffix.lower().lstrip(".")
    write_whole(path, lambda file: figure.savefig(file, format=kind, bbox_inches="tight"))
    pyplot.close(figure)


def _plain(text: str, longest: int = LONGEST_NAME) -> str:
    """As it is: a dollar would begin mathematics, and an underscore at the start hides a name from the legend."""
    shown = printable(text).replace("\n", " ").replace("\t", " ")
    cut = shown if len(shown) <= longest else shown[: longest - 1] + "…"
    return ("\u200b" if cut.startswith("_") else "") + cut.replace("$", r"\$")
