"""One trial: train with some settings, score, and stop early where others were better by then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from graphkin.methods import Method
from graphkin.training.fitted import Fitted
from graphkin.training.loop import Watch
from graphkin.training.plan import plan
from graphkin.tuning.criteria import Judge

LOOKS = (0.25, 0.5)
"""parts of the first repeat's epochs after which a trial is compared with others"""


class PrunedError(Exception):
    """Other trials were better at this step."""


@dataclass(frozen=True)
class Scorer:
    """What all trials of a search share."""

    judge: Judge
    first_seed: int
    repeats: int
    device: str
    memory: str | int | None

    def score(self, method: Method, hopeless: Callable[[int, float], bool]) -> float:
        """The mean over repeats. ``hopeless`` says at a step, given the score so far, whether to stop."""
        prepared = plan(self.judge.graph, method, device=self.device, memory=self.memory).prepare()
        models: list[Fitted] = []
        scores: list[float] = []
        step = 0

        def compare(score: float | None) -> None:
            nonlocal step
            step += 1
            if score is not None and hopeless(step, score):
                raise PrunedError

        epochs = [max(int(part * method.optimiser.epochs), 1) for part in LOOKS]
        early = Watch[list[Fitted]](epochs, lambda found: compare(self.judge.score(found[0], ())))
        for place in range(self.repeats):
            (fitted,) = prepared.train([self.first_seed + place], watch=None if place else early).fitted
            found = self.judge.score(fitted, models)
            models.append(fitted)
            scores += [] if found is None else [found]
            step = len(LOOKS) + place
            if place + 1 < self.repeats and scores:
                compare(float(np.mean(scores)))
        return float(np.mean(scores))
