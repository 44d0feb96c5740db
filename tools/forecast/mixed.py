"""Finds the coefficients: most probable values under priors, with levels per family and per software stack.

The same configuration differs by 16 % in the median between software stacks, far more than a repeat does. A plain
least-squares fit would bend the physics to explain that. So each row's error is split into a level of its family, a
level of its stack (one layout of one family on one engine) and the rest; levels are found in closed form inside the
objective. Stacks that lie off by more than `OUTLIER` (first light of a model, mislabelled runs) hardly count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from day0.tools.forecast import steptime
from day0.tools.forecast.coefficients import Prior, to_logs
from day0.tools.forecast.point import columns
from day0.tools.forecast.stacks import Measured, layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

FAMILY, STACK, ROW, AGENTIC_ROW = 0.15, 0.22, 0.12, 0.30
"""Standard deviations of ln: level of a family, of a stack, and what is left of a row (replayed agents: more)."""

OUTLIER, OUTLIER_ROW = 0.55, 3.0
TPOT_WEIGHT, TTFT_WEIGHT = 0.4, 0.5


class Table:
    """Measured rows as arrays, and the errors of a set of coefficients on them."""

    def __init__(self, rows: Sequence[Measured]) -> None:
        self.rows = tuple(rows)
        self.columns = columns([m.point for m in rows])
        self.scale = np.array([m.point.replicas * m.tokens / m.gpus for m in rows])
        self.rate = np.log([m.per_gpu for m in rows])
        self.tpot = np.log([m.tpot or np.nan for m in rows])
        self.ttft = np.log([m.ttft or np.nan for m in rows])
        self.family = np.array([m.point.family for m in rows])
        self.agentic = np.array([m.point.agentic for m in rows])
        self.stack = np.array(["|".join(map(str, layout(m.point))) + f"|{m.point.agentic}" for m in rows])

    def errors(self, values: Mapping[str, float]) -> tuple[Array, Array, Array]:
        """ln(predicted / measured) of tokens/s, TPOT and median TTFT; NaN where a row lacks the figure."""
        found = steptime.predict(self.columns, values)
        rate = np.log(found.requests * self.scale) - self.rate
        return rate, np.log(found.tpot) - self.tpot, np.log(found.ttft) - self.ttft


class Fit:
    """The objective over one set of rows, and its minimum."""

    def __init__(self, rows: Sequence[Measured], priors: Mapping[str, Prior], outliers: Sequence[str] = ()) -> None:
        self.names = tuple(priors)
        self.mean = np.array(list(to_logs({k: p.value for k, p in priors.items()}).values()))
        self.spread = np.array([p.spread for p in priors.values()])
        self.table = Table(rows)
        noise = np.where(self.table.agentic, AGENTIC_ROW, ROW)
        self.weight = 1.0 / np.where(np.isin(self.table.stack, list(outliers)), OUTLIER_ROW, noise)
        self._levels()

    def _levels(self) -> None:
        """Design of the levels and the matrix that turns errors into their most probable values."""
        sets = [(self.table.family, FAMILY), (self.table.stack, STACK)]
        effects = [((of == name).astype(float), sd) for of, sd in sets for name in sorted(set(of))]
        self._design = np.array([e for e, _ in effects]).T
        self._stiff = np.array([1.0 / sd for _, sd in effects])
        square = self.weight**2
        normal = self._design.T @ (self._design * square[:, None]) + np.diag(self._stiff**2)
        self._solve = np.linalg.solve(normal, self._design.T * square)

    def values(self, z: Array) -> dict[str, float]:
        """Coefficients of standardised parameters."""
        return dict(zip(self.names, (self.mean + self.spread * z).tolist(), strict=True))

    def objective(self, z: Array) -> Array:
        """Residuals whose squares sum to minus twice the logarithm of the posterior."""
        rate, tpot, ttft = self.table.errors(self.values(z))
        level = self._solve @ np.clip(rate, -1.0, 1.0)
        shift = self._design @ level
        return np.concatenate([
            _robust((rate - shift) * self.weight),
            _robust(np.nan_to_num(tpot + shift) * self.weight * TPOT_WEIGHT),
            np.nan_to_num(ttft + shift) * TTFT_WEIGHT,
            self._stiff * level,
            z,
        ])  # fmt: skip

    def minimum(self, start: Array | None = None, steps: int = 25) -> Array:
        """Standardised parameters at the minimum; deterministic."""
        from scipy.optimize import least_squares

        z0 = np.zeros(len(self.names)) if start is None else start
        return np.asarray(least_squares(self.objective, z0, max_nfev=steps, x_scale=1.0).x)

    def outliers(self, z: Array) -> list[str]:
        """Stacks whose median error is beyond `OUTLIER`."""
        rate, _, _ = self.table.errors(self.values(z))
        names = sorted(set(self.table.stack.tolist()))
        return [n for n in names if abs(float(np.median(rate[self.table.stack == n]))) > OUTLIER]


def fit(
    rows: Sequence[Measured], priors: Mapping[str, Prior], start: Array | None = None, steps: tuple[int, int] = (25, 15)
) -> tuple[dict[str, float], Array]:
    """Coefficients (logarithms) of the rows, and the standardised parameters to start a neighbour's fit from."""
    first = Fit(rows, priors)
    z = first.minimum(start, steps[0])
    second = Fit(rows, priors, first.outliers(z))
    z = second.minimum(z, steps[1])
    return second.values(z), z


def _robust(r: Array) -> Array:
    """Pseudo-Huber, as residuals to be squared: errors beyond two standard deviations count linearly."""
    return np.asarray(np.sign(r) * np.sqrt(4.0 * (np.sqrt(1.0 + r * r / 2.0) - 1.0)))
