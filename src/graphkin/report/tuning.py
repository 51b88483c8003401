"""The page of a search for settings: what was tried, the score over trials, and the score against each setting."""

from __future__ import annotations

import math
from typing import Any

from graphkin.report.charts import Chart, Mark, Scale, Series, log_scale, scale_of, word_scale
from graphkin.report.page import facts_of, render
from graphkin.tuning.outcome import FAILED, Tried, Tuned, shown_setting
from graphkin.tuning.space import Choice, Dimension, Range


def tuning_page(tuned: Tuned, environment: dict[str, Any], fit_command: str) -> str:
    """One HTML file; an environment is what :func:`graphkin.support.environment.environment` says, with ``commit``."""
    default, names = tuned.default, list(tuned.best.settings)
    return render(
        "tuning.html",
        title=f"Settings of {tuned.method.name} for {tuned.graph}",
        tuned=tuned,
        gain=None if default is None or default.score is None else _score(tuned.best) - default.score,
        counts=tuned.counts(),
        over_trials=_over_trials(tuned),
        charts=[_against(tuned, name, dimension) for name, dimension in tuned.space.dimensions.items()],
        importance=[(name, round(100 * share)) for name, share in tuned.importance.items()],
        names=names,
        rows=[
            (one, [(shown_setting(_rounded(one.settings[name])), one.settings[name]) for name in names]) for one in tuned.tried
        ],
        digits=len(str(len(tuned.tried))),
        settings={name: shown_setting(value) for name, value in tuned.method.settings().items()},
        facts=facts_of([environment]),
        fit_command=fit_command,
        command="",
    )


def _over_trials(tuned: Tuned) -> Chart:
    scored = _scored(tuned)
    line: list[tuple[float, float]] = []
    best = -math.inf
    for one in tuned.tried:
        if one in tuned.finished and _score(one) > best:
            line += [(float(one.number), best)] if line else []
            best = _score(one)
            line.append((float(one.number), best))
    line.append((float(len(tuned.tried)), best))
    numbers = scale_of([1.0, float(len(tuned.tried))], 8, low=0.5, high=len(tuned.tried) + 0.5)
    whole = Scale(numbers.low, numbers.high, [(tick, text) for tick, text in numbers.ticks if tick == int(tick) and tick >= 1])
    series = [
        Series("best so far", "c0", dashes="", line=line),
        *_marks([(one, float(one.number)) for one in scored]),
    ]
    return Chart("", whole, _scores(tuned), series, _level(tuned), (720, 260), "trial")


def _against(tuned: Tuned, name: str, dimension: Dimension) -> Chart:
    found = [(one, tuned.space.values(one.settings)[name]) for one in _scored(tuned)]
    if isinstance(dimension, Choice):
        places = {text: place for place, text in enumerate(dimension.texts)}
        chosen = [(one, float(places[dimension.stored(value)])) for one, value in found if dimension.holds(value)]
        words = word_scale([text.strip('"') for text in dimension.texts])
        return Chart(name, words, _scores(tuned), _marks(chosen), _level(tuned))
    numbers = [(one, float(value)) for one, value in found if isinstance(value, int | float)]
    shown = [(one, value) for one, value in numbers if value > 0 or not dimension.log]
    return Chart(name, _range_scale(dimension, [value for _, value in shown]), _scores(tuned), _marks(shown), _level(tuned))


def _range_scale(dimension: Range, values: list[float]) -> Scale:
    if dimension.log:
        return log_scale(values, dimension.low, dimension.high)
    return scale_of(values, low=dimension.low, high=dimension.high)


def _scores(tuned: Tuned) -> Scale:
    return scale_of([_score(one) for one in _scored(tuned)])


def _scored(tuned: Tuned) -> list[Tried]:
    """The settings without a search last, on top of the others; failed trials have no score."""
    return sorted((one for one in tuned.tried if one.state != FAILED and one.score is not None), key=lambda one: one.defaults)


def _score(one: Tried) -> float:
    assert one.score is not None
    return one.score


def _level(tuned: Tuned) -> float | None:
    return None if tuned.default is None else tuned.default.score


def _marks(trials: list[tuple[Tried, float]]) -> list[Series]:
    return [Series("", "c0", marks=[_mark(one, x) for one, x in trials])]


def _mark(one: Tried, x: float) -> Mark:
    settings = ", ".join(f"{name} {shown_setting(_rounded(value))}" for name, value in one.settings.items())
    words = f"trial {one.number}, {one.state}: {_score(one):.2f} %. {settings}"
    kind = "defaults" if one.defaults else one.state
    return Mark(x, _score(one), kind, words, "diamond" if one.defaults else "circle")


def _rounded(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_rounded(entry) for entry in value)
    return float(f"{value:.3g}") if isinstance(value, float) else value
