"""How sure a difference is between two rows that were scored on the same splits or seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

SIGNIFICANT = 0.05


class Difference(NamedTuple):
    points: float
    p_value: float
    """how often chance alone gives a difference this large; NaN where there are too few values for a test"""

    @property
    def significant(self) -> bool:
        return self.p_value < SIGNIFICANT


def paired(values: Mapping[int, float], base: Mapping[int, float]) -> Difference | None:
    """The mean difference where both have a value, with the paired t-test; None where nothing is shared."""
    from scipy import stats

    shared = sorted(set(values) & set(base))
    if not shared:
        return None
    gains = np.array([values[one] - base[one] for one in shared])
    if len(gains) < 3 or np.ptp(gains) < 1e-6:
        return Difference(float(gains.mean()), math.nan)
    return Difference(float(gains.mean()), float(stats.ttest_1samp(gains, 0).pvalue))
