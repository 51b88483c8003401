"""A search for settings: trials until there are enough of them or no time is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from graphkin.errors import (
    InputError,
    SettingError,
    check_choice,
    check_installed,
    check_range,
    check_whole,
    first_line,
    is_lack_of_memory,
)
from graphkin.graphs.graph import Graph
from graphkin.graphs.inputs import GraphLike, as_graph
from graphkin.methods import Method, key_form
from graphkin.support.files import check_writable, checked_path
from graphkin.support.signals import stop_after_trial
from graphkin.training.plan import plan, resolve
from graphkin.tuning.criteria import PROTOCOLS, SEEDS_EACH, Asked, Criterion, criterion_named
from graphkin.tuning.outcome import COMPLETE, FAILED, PRUNED, Tried, Tuned
from graphkin.tuning.scoring import PrunedError, Scorer
from graphkin.tuning.space import Space, space_for
from graphkin.tuning.trials import Trials, opened

TRIALS = 30
"""where neither their number nor a time is given"""
MOST_TRIALS = 100_000
Report: TypeAlias = Callable[[tuple[Tried, ...]], None]
"""called after every trial with all trials so far"""


def tune(
    data: GraphLike,
    method: str | Method | None = None,
    *,
    preset: str | Path | None = None,
    trials: int | None = None,
    seconds: float | None = None,
    search: Mapping[str, Any] | None = None,
    criterion: str = "auto",
    protocol: str = "grace",
    splits: int = 5,
    repeats: int | None = None,
    seed: int = 0,
    device: str = "auto",
    memory: str | int | None = None,
    out: str | Path | None = None,
    report: Report | None = None,
    **settings: Any,
) -> Tuned:
    """Search for better settings of ``method`` on a graph. The first trial has those that it would have without a search.

    Args:
        data, method, preset, device, memory: as in :func:`graphkin.fit`.
        trials: how many in all, including those of earlier calls with the same ``out``; 30 if ``seconds`` is not given either.
        seconds: start no trial after this time.
        search: what to search besides the method's own space, or instead: ``{"tau": (0.1, 1.0), "hidden": [128, 256]}``,
            or ``{"tau": {"low": 0.1, "high": 1.0, "log": True}}``.
        criterion: "labels" (validation accuracy), "edges" (held-out edges), "agreement" (of two seeds); "auto" is labels where
            there are any, and edges otherwise. See docs/tune.md.
        protocol: for labels, "grace" (random splits) or "public" (the graph's own).
        splits: how many random splits.
        repeats: training runs per trial, with different seeds; the score is their mean.
        seed: the seed for all randomness. The same seed and number of trials give the same settings.
        out: a folder that keeps every trial, so that the same call resumes a search that was stopped or killed.
        report: called after every trial with all trials so far.
        **settings: fixed settings, which are not searched.

    Ctrl-C ends the search after the current trial.
    """
    check_installed("tune", "optuna")
    graph = as_graph(data)
    base = resolve(method, graph, preset).configure(**settings)
    chosen, asked, limits = criterion_named(criterion, graph), Asked(base, seed, protocol, splits), _Limits(trials, seconds)
    repeats = chosen.repeats if repeats is None else repeats
    _check_numbers(asked, repeats, chosen)
    wanted = _Search(graph, base, space_for(base, {} if search is None else search, settings.keys()), chosen, asked, repeats)
    plan(graph, base, device=device, memory=memory)
    scorer = Scorer(chosen.ready(graph, asked), asked.first_seed, repeats, device, memory)
    folder = None if out is None else checked_path(out)
    if folder is not None:
        check_writable(folder)
    with opened(folder, wanted.identity(), wanted.space, seed) as kept:
        interrupted = wanted.run(kept, scorer, limits, report or (lambda tried: None))
        return wanted.outcome(kept, interrupted)


@dataclass(frozen=True)
class _Limits:
    trials: int | None
    seconds: float | None

    def __post_init__(self) -> None:
        if self.trials is not None:
            check_whole("trials", self.trials, at_least=1, at_most=MOST_TRIALS)
        if self.seconds is not None:
            check_range("seconds", self.seconds, above=0)

    def reached(self, trials: int, spent: float) -> bool:
        """There is always a first trial."""
        most = TRIALS if self.trials is None and self.seconds is None else self.trials
        late = self.seconds is not None and spent >= self.seconds and trials > 0
        return late or (most is not None and trials >= most) or trials >= MOST_TRIALS


def _check_numbers(asked: Asked, repeats: int, criterion: Criterion) -> None:
    check_whole("seed", asked.seed, at_least=0, at_most=10**9)
    check_choice("protocol", asked.protocol, PROTOCOLS)
    check_whole("splits", asked.splits, at_least=1, at_most=SEEDS_EACH)
    check_whole("repeats", repeats, at_least=1, at_most=SEEDS_EACH)
    if repeats < criterion.repeats:
        raise SettingError(f"repeats must be at least {criterion.repeats} for criterion {criterion.name}, found {repeats}.")


@dataclass(frozen=True)
class _Search:
    """What is searched, checked."""

    graph: Graph
    base: Method
    """with the settings that are not searched, and of the first trial"""
    space: Space
    criterion: Criterion
    asked: Asked
    repeats: int

    def identity(self) -> dict[str, Any]:
        """All that scores depend on, by names for people."""
        return {
            "graph": self.graph.content,
            "method": self.base.name,
            "settings": key_form(self.base),
            "search space": self.space.as_dict(),
            "criterion": [self.criterion.name, self.asked.protocol, self.asked.splits],
            "number of repeats": self.repeats,
            "seed": self.asked.seed,
        }

    def run(self, kept: Trials, scorer: Scorer, limits: _Limits, report: Report) -> bool:
        """Trials until a limit is reached; whether Ctrl-C ended it before."""
        start = time.monotonic()
        with stop_after_trial() as stop:
            while not limits.reached(len(kept), time.monotonic() - start) and not stop.is_set():
                self._try_next(kept, scorer)
                report(kept.tried(self._without_search()))
            return stop.is_set()

    def _try_next(self, kept: Trials, scorer: Scorer) -> None:
        trial = kept.begin(self.space.of(self.base))

        def hopeless(step: int, score: float) -> bool:
            trial.report(score, step)
            return bool(trial.should_prune())

        drawn = {} if trial.user_attrs.get("defaults") else self.space.settings(trial.params)
        try:
            score = scorer.score(self.base.configure(**drawn), hopeless)
        except PrunedError:
            kept.end(trial, PRUNED)
        except (InputError, RuntimeError, MemoryError) as error:
            if not isinstance(error, InputError) and not is_lack_of_memory(error):
                raise
            kept.end(trial, FAILED, failure=first_line(error))
        else:
            kept.end(trial, COMPLETE, score)

    def _without_search(self) -> dict[str, Any]:
        """The method's own values of what is searched."""
        names = dict.fromkeys(name.partition("[")[0] for name in self.space.dimensions)
        return {name: self.base.settings()[name] for name in names}

    def outcome(self, kept: Trials, interrupted: bool) -> Tuned:
        tried = kept.tried(self._without_search())
        if not any(one.state == COMPLETE for one in tried):
            failures = [one.failure for one in tried if one.failure]
            raise InputError(f"all {len(tried)} trials failed; the first one: {failures[0] if failures else 'stopped early'}")
        tuned = Tuned(
            method=self.base,
            graph=self.graph.name,
            criterion=self.criterion.name,
            measure=self.criterion.description,
            seed=self.asked.seed,
            space=self.space,
            tried=tried,
            importance=kept.importance(),
            interrupted=interrupted,
        )
        return tuned if tuned.best.defaults else replace(tuned, method=self.base.configure(**tuned.best.settings))
