"""Boundaries of the sequential comparison, in standard errors, made by `bench/boundaries.py`.

4,000,000 simulated comparisons without gain, seed 20270104. `before`: by number of pairs, more may follow;
`last`: by number of pairs where these are all. Outer key: the error over all looks.
"""

from __future__ import annotations

from collections.abc import Mapping

LONGEST = 8
PAIRED: Mapping[float, Mapping[str, Mapping[int, float]]] = {
    0.009: {
        "before": {4: 16.127, 5: 5.726, 6: 5.854, 7: 5.71},
        "last": {3: 10.038, 4: 5.411, 5: 4.39, 6: 4.234, 7: 4.037, 8: 3.868},
    },
    0.05: {
        "before": {4: 8.121, 5: 3.069, 6: 3.329, 7: 3.419},
        "last": {3: 3.548, 4: 2.602, 5: 2.375, 6: 2.489, 7: 2.514, 8: 2.535},
    },
}
ARMS: Mapping[float, Mapping[str, Mapping[int, float]]] = {
    0.009: {
        "before": {3: 12.486, 4: 6.1, 5: 3.994, 6: 4.223, 7: 4.226},
        "last": {2: 7.351, 3: 5.675, 4: 4.17, 5: 3.632, 6: 3.525, 7: 3.454, 8: 3.413},
    },
    0.05: {
        "before": {2: 9.935, 3: 6.601, 4: 3.921, 5: 2.652, 6: 2.866, 7: 2.956},
        "last": {2: 2.917, 3: 3.01, 4: 2.627, 5: 2.423, 6: 2.405, 7: 2.448, 8: 2.479},
    },
}
