"""The loops over edges behind :mod:`graphkin.similarity.pagerank`, which numba compiles."""

from __future__ import annotations

import numba
import numpy as np

SMALLEST = 2e-45
"""a float32 above zero: what has arrived at a node that was visited is not zero, however little it was"""


def compiled(parallel=False):
    """Compiled once for all processes, or in each of them where nothing can be written to disk."""

    def compile(function):
        try:
            return numba.njit(parallel=parallel, cache=True)(function)
        except RuntimeError:
            return numba.njit(parallel=parallel)(function)

    return compile


@compiled(parallel=True)
def push(walk, starts, alpha, threshold, columns, values, threads):
    """Rests wait in a queue and are spread until none is above the threshold. A rest waits if and only if it is above it.

    What belongs to the few nodes that are reached lies side by side, in a core's cache.
    """
    num_nodes = len(walk.root)
    for thread in numba.prange(threads):
        place_of = np.full(num_nodes, -1, np.int32)
        reached, queue = np.empty(num_nodes, np.int32), np.empty(num_nodes, np.int32)
        waits, arrived = np.empty(num_nodes, np.float32), np.empty(num_nodes, np.float32)
        for out in range(thread, len(columns), threads):
            start = starts[out]
            if walk.root[start] == 0:
                columns[out, 0], values[out, 0] = start, alpha
                continue
            reached[0], place_of[start] = start, 0
            waits[0], arrived[0] = 1 / walk.root[start] ** 2, 0
            queue[0] = 0
            head, waiting, count = 0, 1, 1
            while waiting:
                place = queue[head]
                head = head + 1 if head + 1 < num_nodes else 0
                waiting -= 1
                node, amount = reached[place], waits[place]
                arrived[place] += alpha * amount
                waits[place] = 0
                for edge in range(walk.rowptr[node] - 1, walk.rowptr[node + 1]):
                    loop = edge < walk.rowptr[node]
                    other = node if loop else walk.columns[edge]
                    passed = amount * (walk.looped[node] if loop else walk.passed[edge])
                    there = place_of[other]
                    if there < 0:
                        if passed == 0:
                            continue
                        there, count = count, count + 1
                        reached[there], place_of[other] = other, there
                        waits[there], arrived[there] = 0, 0
                    before = waits[there]
                    waits[there] = before + passed
                    if before <= threshold and waits[there] > threshold:
                        tail = head + waiting
                        queue[tail if tail < num_nodes else tail - num_nodes] = there
                        waiting += 1
            for place in range(count):
                arrived[place] += alpha * waits[place]
                place_of[reached[place]] = -1
            _take_largest(arrived[:count], reached[:count], walk.root, walk.root[start], columns[out], values[out])


@compiled(parallel=True)
def step(walk, starts, alpha, threshold, steps, columns, values, threads):
    """The walk step by step; after each, what is at most the threshold is not spread further."""
    num_nodes = len(walk.root)
    for thread in numba.prange(threads):
        amounts = np.zeros((num_nodes, 3), np.float32)  # what has arrived, what is at a node now, and after the next step
        here, there, touched = np.empty(num_nodes, np.int32), np.empty(num_nodes, np.int32), np.empty(num_nodes, np.int32)
        for place in range(thread, len(columns), threads):
            start = starts[place]
            if walk.root[start] == 0:
                columns[place, 0], values[place, 0] = start, alpha
                continue
            amounts[start, 1] = 1 / walk.root[start] ** 2
            here[0], touched[0] = start, start
            size, count = 1, 1
            for _ in range(steps):
                reached = 0
                for node in here[:size]:
                    amount = amounts[node, 1]
                    amounts[node, 0] += max(alpha * amount, SMALLEST)
                    amounts[node, 1] = 0
                    if amount <= threshold:
                        continue
                    for edge in range(walk.rowptr[node] - 1, walk.rowptr[node + 1]):
                        loop = edge < walk.rowptr[node]
                        other = node if loop else walk.columns[edge]
                        passed = amount * (walk.looped[node] if loop else walk.passed[edge])
                        if passed == 0:
                            continue
                        if amounts[other, 2] == 0:
                            there[reached] = other
                            reached += 1
                            if amounts[other, 0] == 0 and amounts[other, 1] == 0 and count < num_nodes:
                                touched[count] = other
                                count += 1
                        amounts[other, 2] += passed
                here, there, size = there, here, reached
                for node in here[:size]:
                    amounts[node, 1] = amounts[node, 2]
                    amounts[node, 2] = 0
            for node in here[:size]:
                amounts[node, 0] += amounts[node, 1]
            arrived = amounts[:, 0][touched[:count]]
            _take_largest(arrived, touched[:count], walk.root, walk.root[start], columns[place], values[place])
            amounts[touched[:count]] = 0


@compiled()
def _take_largest(amounts, nodes, root, factor, columns, values):
    """The largest of amounts · root · factor of some ``nodes``, by column; values is a heap with its smallest first."""
    k, size = len(columns), 0
    for index, node in enumerate(nodes):
        value = amounts[index] * root[node] * factor
        if size < k:
            place = size
            size += 1
            while place > 0 and values[(place - 1) // 2] > value:
                columns[place], values[place] = columns[(place - 1) // 2], values[(place - 1) // 2]
                place = (place - 1) // 2
        elif value > values[0]:
            place = 0
            while True:
                below = 2 * place + 1
                if below >= k:
                    break
                if below + 1 < k and values[below + 1] < values[below]:
                    below += 1
                if values[below] >= value:
                    break
                columns[place], values[place] = columns[below], values[below]
                place = below
        else:
            continue
        columns[place], values[place] = node, value
    order = np.argsort(columns[:size])
    columns[:size], values[:size] = columns[:size][order], values[:size][order]


@compiled(parallel=True)
def cosines(starts, columns, values, rowptr, sources, entries, out_columns, out_values, threads):
    """For each of ``starts`` the products of its row with all rows that share a column."""
    num_nodes, k = columns.shape
    ones = np.ones(num_nodes, np.float32)
    for thread in numba.prange(threads):
        sums = np.zeros(num_nodes, np.float32)
        touched = np.empty(num_nodes, np.int32)
        for out in range(thread, len(starts), threads):
            node, count = starts[out], 0
            for place in range(k):
                column = columns[node, place]
                if column < 0:
                    break
                for entry in range(rowptr[column], rowptr[column + 1]):
                    other = sources[entry]
                    if sums[other] == 0:
                        touched[count] = other
                        count += 1
                    sums[other] += values[node, place] * entries[entry]
            _take_largest(sums[touched[:count]], touched[:count], ones, np.float32(1), out_columns[out], out_values[out])
            sums[touched[:count]] = 0
