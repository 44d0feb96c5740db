"""Makes `tools/boundaries.py`: the boundaries of the sequential comparison, by Monte Carlo of the joint law.

Under no gain the two statistics depend on nothing unknown (not on the noise, the level, a straight drift), so one
simulation of standard normal boots calibrates them: look by look, the boundary is the quantile, among the trials that
crossed nothing before, of the error that this look may spend. Run as `python bench/boundaries.py > tools/boundaries.py`
(about three minutes on one core; the seed is fixed, so the text is the same again).
"""

from __future__ import annotations

import sys
from math import inf

import numpy as np
from numpy.typing import NDArray

TRIALS, PART, SEED = 4_000_000, 500_000, 20_270_104
LONGEST = 8
SPENT = {3: 0.06, 4: 0.11, 5: 0.41, 6: 0.06, 7: 0.04}
"""share of the error at each look but the last, which gets the rest: five pairs are what 3 % at 0.8 % noise needs"""
TWO = {0.009: 0.0, 0.05: 0.1}
"""share at two pairs: promotion has the ten-times rule there, the 95 % bound must exist"""
TO_ARMS = {
    "before": {2: 1.0, 3: 1.0, 4: 0.8, 5: 0.6, 6: 0.6, 7: 0.6},
    "last": {2: 1.0, 3: 0.6, 4: 0.5, 5: 0.5, 6: 0.5, 7: 0.5, 8: 0.5},
}
"""of a look's error, to the test over all boots; the rest to the paired one, which with two or three pairs is worth
little early, and much at the end of a short budget where arrivals move every pair"""

Numbers = NDArray[np.float64]


def trials() -> tuple[Numbers, Numbers]:
    """Both t statistics of boots without gain: arrays (trials, looks at 2..LONGEST pairs)."""
    from day0.tools.sequential import estimates

    rng, first = np.random.default_rng(SEED), [n % 2 == 0 for n in range(LONGEST)]
    paired, arms = [], []
    for _ in range(TRIALS // PART):
        # standard normal times 10: the least spread that the estimates allow does not matter
        logs = 10 * rng.standard_normal((PART, LONGEST, 2))
        looks = [estimates(logs[:, :n], first) for n in range(2, LONGEST + 1)]
        paired.append(np.stack([e.mean / e.paired_se for e in looks], axis=1).astype(np.float32))
        arms.append(np.stack([e.effect / e.arms_se for e in looks], axis=1).astype(np.float32))
    return np.concatenate(paired), np.concatenate(arms)


def top(values: Numbers, alive: NDArray[np.bool_], share: float) -> float:
    """The value that a share of all trials exceeds, among those alive."""
    count = round(share * len(values))
    if count < 1:
        return inf
    kept = np.where(alive, values, -np.inf)
    return float(np.partition(kept, len(kept) - count - 1)[len(kept) - count - 1])


def spend(
    paired: Numbers, arms: Numbers, alive: NDArray[np.bool_], look: int, error: float, *, share: float
) -> tuple[float, float, NDArray[np.bool_]]:
    """Boundaries of one look for its error, of which `share` is for the test over all boots; and who is left."""
    a = top(arms[:, look - 2], alive, error * share)
    alive = alive & ~(arms[:, look - 2] > a)
    p = top(paired[:, look - 2], alive, error * (1 - share))
    return p, a, alive & ~(paired[:, look - 2] > p)


def table(paired: Numbers, arms: Numbers, error: float) -> tuple[dict[str, dict[int, float]], ...]:
    """(paired, arms), each {"before": {look: boundary}, "last": {budget: boundary}}."""
    out: tuple[dict[str, dict[int, float]], ...] = ({"before": {}, "last": {}}, {"before": {}, "last": {}})
    alive, spent = np.ones(len(paired), dtype=np.bool_), 0.0
    for look in range(2, LONGEST + 1):
        for row, share in (("last", 1.0 - spent), ("before", SPENT.get(look, TWO[error] if look == 2 else 0.0))):
            if row == "before" and look == LONGEST:
                continue
            p, a, left = spend(paired, arms, alive, look, error * share, share=TO_ARMS[row][look])
            for side, value in zip(out, (p, a), strict=True):
                if value != inf:
                    side[row][look] = round(value, 3)
            if row == "before":
                alive, spent = left, spent + share
    return out


def main() -> None:
    """Prints the module."""
    paired, arms = trials()
    made = {error: table(paired, arms, error) for error in TWO}
    write = sys.stdout.write
    write('"""Boundaries of the sequential comparison, in standard errors, made by `bench/boundaries.py`.\n\n')
    write(
        f"{TRIALS:,} simulated comparisons without gain, seed {SEED}. `before`: by number of pairs, more may follow;\n"
    )
    write('`last`: by number of pairs where these are all. Outer key: the error over all looks.\n"""\n\n')
    write("from __future__ import annotations\n\nfrom collections.abc import Mapping\n\n")
    write(f"LONGEST = {LONGEST}\n")
    for name, side in (("PAIRED", 0), ("ARMS", 1)):
        write(f"{name}: Mapping[float, Mapping[str, Mapping[int, float]]] = {{\n")
        for error, both in made.items():
            write(f"    {error}: {{\n")
            for row, values in both[side].items():
                write(f'        "{row}": {{{", ".join(f"{k}: {v}" for k, v in values.items())}}},\n')
            write("    },\n")
        write("}\n")


if __name__ == "__main__":
    main()
