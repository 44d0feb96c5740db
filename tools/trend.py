"""Is something growing? Robust to outliers and to the bursts of a Poisson process."""

from __future__ import annotations

from collections.abc import Sequence

MAX_POINTS = 400
MIN_POINTS = 6


def growth(times: Sequence[float], values: Sequence[float]) -> tuple[float, bool]:
    """Growth over the whole span, and whether it is surely positive.

    Theil-Sen slope (Sen 1968) times the span; sure when the slope's one-sided 97.5 % lower bound lies above 0. The
    unit is that of `values`. Fewer than 6 points say nothing: (0.0, False).
    """
    if len(times) < MIN_POINTS:
        return 0.0, False
    import numpy as np
    from scipy import stats

    x, y = np.asarray(times, dtype=float), np.asarray(values, dtype=float)
    if len(x) > MAX_POINTS:
        keep = np.linspace(0, len(x) - 1, MAX_POINTS).astype(int)
        x, y = x[keep], y[keep]
    if float(np.ptp(x)) <= 0 or float(np.ptp(y)) <= 0:
        return 0.0, False
    slope, _, low, _ = stats.theilslopes(y, x, alpha=0.95)
    return float(slope) * float(np.ptp(x)), float(low) > 0
