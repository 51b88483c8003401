"""Structure-aware fuzzing (tests/fuzz): a result or one clear line, never a traceback."""

from __future__ import annotations

import pytest

from tests.fuzz import FAMILIES, one_case
from tests.fuzz.draws import Draw

QUICK = range(50)
CASES = [*QUICK, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(len(QUICK), 300))]


@pytest.mark.parametrize("seed", CASES)
@pytest.mark.filterwarnings("ignore")
def test_a_result_or_one_clear_line(seed: int) -> None:
    one_case(seed)


def test_every_family_has_a_quick_case() -> None:
    drawn = {Draw(seed).weighted(FAMILIES)[0] for seed in QUICK}
    assert drawn == {name for (name, _), _ in FAMILIES}
