"""Habits of published evaluations that can raise numbers (docs/leaderboard.md): to understand others, never for own claims."""

from __future__ import annotations

from collections.abc import Callable

from graphkin.evaluation.probe import probe, probe_adam, refitted
from graphkin.evaluation.rows import comparable_rows, dense_rows, few_standardised
from graphkin.evaluation.scoring import Subject, Values
from graphkin.graphs.splits import Split


def refit(subject: Subject) -> Values:
    """The probe is fitted again on training and validation nodes together: twice the labels."""
    rows = comparable_rows(subject.rows)
    return _each(subject, lambda split: refitted(rows, subject.labels, split))


def swapped(subject: Subject) -> Values:
    """Validation and test nodes are swapped: C is chosen on 80 % of the nodes, and 10 % are scored."""
    rows = comparable_rows(subject.rows)
    return _each(subject, lambda split: probe(rows, subject.labels, Split(split.train, split.test, split.val)).test)


def best_test(subject: Subject) -> Values:
    """The epoch of the probe of protocol "gca" that is best on test nodes."""
    rows = dense_rows(few_standardised(subject.rows))
    return _each(subject, lambda split: probe_adam(rows, subject.labels, split, seed=subject.seeds[0], by_test=True).test)


def _each(subject: Subject, accuracy: Callable[[Split], float]) -> Values:
    return {"accuracy": tuple(accuracy(split) for split in subject.splits)}
