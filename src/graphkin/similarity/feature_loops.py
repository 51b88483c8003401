"""The loop behind cosines of listed pairs of nodes, which numba compiles."""

from __future__ import annotations

import numba
import numpy as np

from graphkin.similarity.pagerank_loops import compiled


@compiled(parallel=True)
def products(rows, rowptr, columns, feature_rowptr, features, values, num_features, out, threads):
    """The products of each of ``rows`` with the nodes that ``columns`` lists for it, one after the other."""
    first = np.zeros(len(rows) + 1, np.int64)
    for place in range(len(rows)):
        first[place + 1] = first[place] + rowptr[rows[place] + 1] - rowptr[rows[place]]
    for thread in numba.prange(threads):
        mine = np.zeros(num_features, values.dtype)
        for place in range(thread, len(rows), threads):
            node = rows[place]
            for entry in range(feature_rowptr[node], feature_rowptr[node + 1]):
                mine[features[entry]] = values[entry]
            for count in range(rowptr[node + 1] - rowptr[node]):
                other, total = columns[rowptr[node] + count], 0.0
                for entry in range(feature_rowptr[other], feature_rowptr[other + 1]):
                    total += mine[features[entry]] * values[entry]
                out[first[place] + count] = total
            for entry in range(feature_rowptr[node], feature_rowptr[node + 1]):
                mine[features[entry]] = 0
