"""Structure-aware fuzzing (tests/fuzz): a result or one clear line, never a traceback."""

from __future__ import annotations

import pytest

from tests.fuzz import one_case


@pytest.mark.parametrize("seed", range(300))
@pytest.mark.filterwarnings("ignore")
def test_a_result_or_one_clear_line(seed: int) -> None:
    one_case(seed)
