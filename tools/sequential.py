"""Sequential comparison of two arms by pairs of boots: estimates, boundaries, repeated confidence bounds. Pure.

Two tests stand side by side, and either may decide. *Paired*: Student's t of the pairs' log ratios; whatever both
boots of a pair share (arrival pattern, hour) cancels, but n pairs leave only n - 1 degrees of freedom. *Arms*: least
squares over all 2n boots in the order they were booted, with an effect of the arm and, from three pairs on, a
straight drift; 2n - 3 degrees of freedom, but what pairs share counts as noise. Where pairs share nothing both are
exact, where they share something the second is only more careful: so boundaries that hold jointly without it hold
always. They come from `boundaries.py` (Monte Carlo of the joint law; alpha is spent over looks as in Lan & DeMets,
Biometrika 1983), and the bounds are repeated confidence bounds (Jennison & Turnbull, JRSS B 1989): they hold at
whatever pair one stops, and for whatever reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from day0.tools.boundaries import ARMS, LONGEST, PAIRED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

FALSE_PROMOTION = 0.009
"""Chance that an arm without any gain is called better, over all looks together. The promise is 1 %: a tenth of it is
kept for the ten-times rule, which rests on the noise floor."""
OUTSIDE = 0.05
"""Chance that the truth lies below the lower bound, at whatever look it is read; the same for the upper one."""
TEN = 10.0
"""A gain above this many times the noise may stop after two pairs. Two pairs give the arms' own spread two degrees
of freedom, and chance makes that less than a tenth of the truth in 1 of 200: hence the floor beside it."""
FEW = 2.0
"""Times the noise floor that a gain must exceed where two pairs are all there will be."""
LEAST_SPREAD = 0.002
"""Relative s.d. of a boot's figure below which agreement is taken for chance."""


@dataclass(frozen=True)
class Estimates:
    """After n pairs; arrays over any number of trials. Logs: 0.01 is about 1 %.

    `mean` and `paired_se` are of the pairs' log ratios; `effect` and `arms_se` of the drift-free fit over all boots;
    `spread` is the s.d. of a boot around that fit.
    """

    pairs: int
    mean: Numbers
    paired_se: Numbers
    effect: Numbers
    arms_se: Numbers
    spread: Numbers


def estimates(logs: Numbers, incumbent_first: Sequence[bool]) -> Estimates:
    """From logs of shape (trials, pairs, 2): log figure of incumbent and challenger, pairs in the order measured.

    `incumbent_first[i]` tells which arm of pair i booted first. At least two pairs.
    """
    import numpy as np

    trials, count, _ = logs.shape
    ratios = logs[:, :, 1] - logs[:, :, 0]
    mean = ratios.mean(axis=1)
    paired = np.maximum(ratios.std(axis=1, ddof=1), LEAST_SPREAD * np.sqrt(2)) / np.sqrt(count)
    order = np.array([[0, 1] if first else [1, 0] for first in incumbent_first[:count]])
    boots = np.take_along_axis(logs, np.broadcast_to(order, logs.shape), axis=2).reshape(trials, 2 * count)
    columns = [np.ones(2 * count), order.reshape(-1) - 0.5]
    if count > 2:
        columns.append(np.arange(2 * count) - count + 0.5)
    design = np.stack(columns, axis=1)
    fitted = boots @ np.linalg.pinv(design).T
    left = boots - fitted @ design.T
    freedom = 2 * count - design.shape[1]
    spread = np.maximum(np.sqrt(np.einsum("ij,ij->i", left, left) / freedom), LEAST_SPREAD)
    scale = float(np.sqrt(np.linalg.inv(design.T @ design)[1, 1]))
    return Estimates(count, mean, paired, fitted[:, 1], spread * scale, spread)


def limits(pairs: int, most: int, error: float) -> tuple[float, float]:
    """(paired, arms): how many standard errors the bounds of error `error` lie off after `pairs` of `most` pairs.

    Infinite where nothing is spent. More than `LONGEST` pairs are judged as if that were the budget: later pairs add
    no look.
    """
    most = max(2, min(most, LONGEST))
    if pairs < 2 or pairs > most:
        return inf, inf
    row = "last" if pairs == most else "before"
    return PAIRED[error][row].get(pairs, inf), ARMS[error][row].get(pairs, inf)


def bounds(found: Estimates, most: int, error: float, floor: float = 0.0) -> tuple[Numbers, Numbers]:
    """Lower and upper bound of the log gain, each exceeded with probability at most `error` over all looks.

    After two pairs they are no narrower than `FEW` times the noise floor either: boots that happen to agree are rare,
    but then they would look like certainty.
    """
    import numpy as np

    paired, arms = limits(found.pairs, most, error)
    wide = np.full_like(found.mean, inf)
    half = wide if paired == inf else paired * found.paired_se
    other = wide if arms == inf else arms * found.arms_se
    if found.pairs == 2:
        other = np.maximum(other, FEW * floor)
    lower = np.maximum(found.mean - half, found.effect - other)
    upper = np.minimum(found.mean + half, found.effect + other)
    return lower, upper


def better(found: Estimates, most: int, floor: float) -> NDArray[np.bool_]:
    """Whether the challenger is shown to be better, at this look of at most `most`.

    After two pairs of more only by ten times the noise: the larger of the floor and the boots' own spread.
    """
    import numpy as np

    if found.pairs == 2:
        if min(most, LONGEST) > 2:
            shown: Any = found.mean > TEN * np.maximum(floor, found.spread)
            return np.asarray(shown, dtype=np.bool_)
        least = FEW * floor
    else:
        least = 0.0
    lower, _ = bounds(found, most, FALSE_PROMOTION)
    return np.asarray((lower > 0) & (found.mean > least), dtype=np.bool_)


def hopeless(found: Estimates, worth: float) -> NDArray[np.bool_]:
    """Whether a gain of `worth` (log) is too far above what was seen to wait for: three standard errors or more.

    Stopping for this promotes nobody, so it costs no error, only power.
    """
    import numpy as np

    if found.pairs < 3:
        return np.zeros(found.mean.shape, dtype=np.bool_)
    return np.asarray(found.effect + 3.0 * np.minimum(found.arms_se, found.paired_se) < worth, dtype=np.bool_)
