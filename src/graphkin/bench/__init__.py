"""``graphkin bench``: time and memory of the objective and of a whole epoch, compared with the dense computation in one run.

A speed counts only if the result is right: every contender's loss and gradient are checked first, and one that disagrees is not
timed.
"""

from graphkin.bench.results import Results, Row, read

__all__ = ["Results", "Row", "read"]
