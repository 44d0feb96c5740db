"""How often the judges are wrong, by simulation: printed, never asserted. Seeds are fixed; under a minute on one core.

`python bench/judging.py`: the sequential comparison (false promotions, power, drifts, heavy tails), its bounds at the
moment of stopping, the interval of a knee over arrival seeds, and the non-inferiority bounds of accuracy.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import knee_trials
import numpy as np
from day0.tools import judge, knee, noninferiority, sequential
from numpy.typing import NDArray

SEED = 40
TRIALS, MOST = 20_000, 8
BURST = 0.35
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Noise:
    """Of boots, all but `tails` relative s.d.; `line` and `walk` are drifts per boot, `shared` is common to a pair.

    `burst`: the chance that a boot's figure is 0.35 too low; `again`: one far too low (`knee.fallen`) is drawn again.
    """

    name: str
    boot: float
    line: float = 0.0
    walk: float = 0.0
    shared: float = 0.0
    tails: int = 0
    challenger: float = 1.0
    jump: float = 0.0
    burst: float = 0.0
    again: bool = False

    def logs(self, rng: np.random.Generator, gain: float, trials: int = TRIALS) -> Numbers:
        """Log figures (trials, pairs, 2) of incumbent and challenger, arms in alternating order."""
        boots = np.arange(2 * MOST)
        challenger = np.array([arm for n in range(MOST) for arm in ((0, 1) if n % 2 == 0 else (1, 0))])
        size = (trials, 2 * MOST)
        scale = self.boot * np.where(challenger == 1, self.challenger, 1.0)
        own = self._own(rng, size) * scale - self._bursts(rng, size)
        if self.again:  # all of its noise anew, though a boot's own stays as it is: the worst for the bounds
            more = self._own(rng, size) * scale - self._bursts(rng, size)
            own = np.where(own < np.log(knee.fallen(self.boot)), more, own)
        own += self.line * boots + np.cumsum(rng.standard_normal(size) * self.walk, axis=1)
        own += np.repeat(rng.standard_normal((trials, MOST)) * self.shared, 2, axis=1)
        # a lasting change at a random boot: another day, another image of the machine
        at = rng.integers(0, 2 * MOST, (trials, 1))
        own += np.where(boots >= at, rng.standard_normal((trials, 1)) * self.jump, 0.0)
        own += np.log1p(gain) * challenger
        out = own.reshape(trials, MOST, 2)
        out[:, 1::2] = out[:, 1::2, ::-1]
        return out

    def _own(self, rng: np.random.Generator, size: tuple[int, int]) -> Numbers:
        if self.tails:
            return np.asarray(rng.standard_t(self.tails, size) / np.sqrt(self.tails / (self.tails - 2)))
        return rng.standard_normal(size)

    def _bursts(self, rng: np.random.Generator, size: tuple[int, int]) -> Numbers | float:
        return BURST * (rng.random(size) < self.burst) if self.burst else 0.0


@dataclass(frozen=True)
class Outcome:
    """Of many comparisons: `promoted[n]` share promoted by pair n; `outside` with a bound above the truth."""

    promoted: dict[int, float]
    pairs: float
    outside: float


def floors(logs: Numbers, before: Numbers) -> Numbers:
    """The noise floor as a run has it: its prior, the spread of each arm's own boots, and what was measured before.

    `before` is of shape (trials, boots): the baseline's boots before the search, none or three (`judge.noise_floor`).
    """
    pairs = logs.shape[1]
    squares = ((logs - logs.mean(axis=1, keepdims=True)) ** 2).sum(axis=(1, 2))
    boots = before.shape[1]
    weight = judge.MEASURED_PRIOR_WEIGHT if boots > 2 else judge.PRIOR_WEIGHT
    squares = squares + weight * judge.NOISE_PRIOR**2 + (boots * before.var(axis=1) if boots else 0.0)
    freedom = weight + 2 * (pairs - 1) + max(0, boots - 1)
    return np.asarray(np.sqrt(squares / freedom), dtype=np.float64)


def play(
    noise: Noise, gain: float, *, most: int = MOST, floor: float | None = None, trials: int = TRIALS, repeats: int = 0
) -> Outcome:
    """Runs comparisons to their end by the very functions that judge a run. `floor` None: as a run has it.

    `repeats` are the baseline's boots before the search that its noise floor rests on.
    """
    rng = np.random.default_rng(SEED)
    logs = noise.logs(rng, gain, trials)
    before = rng.standard_normal((trials, repeats)) * noise.boot
    first = [n % 2 == 0 for n in range(MOST)]
    at = np.zeros(trials, dtype=int)
    used, lowest = np.zeros(trials, dtype=int), np.zeros(trials)
    worth = float(np.log1p(judge.WORTH))
    for n in range(2, most + 1):
        going = np.flatnonzero(used == 0)
        seen = logs[going, :n]
        found = sequential.estimates(seen, first)
        known = floors(seen, before[going]) if floor is None else np.full(len(going), floor)
        shown = sequential.better(found, most, known)
        lower, upper = sequential.bounds(found, most, sequential.OUTSIDE, known)
        over = shown | (upper < worth) | sequential.hopeless(found, worth) | (n == most)
        at[going[shown]] = n
        used[going[over]] = n
        lowest[going[over]] = lower[over]
    by = {n: float(((at > 0) & (at <= n)).mean()) for n in range(2, most + 1)}
    return Outcome(by, float(used.mean()), float((lowest > np.log1p(gain)).mean()))


def drifts(boot: float) -> tuple[Noise, ...]:
    """What may go on beside a boot's own noise, in units of it."""
    return (
        Noise("no drift", boot),
        Noise("linear drift, 0.25 x noise a boot", boot, line=0.25 * boot),
        Noise("linear drift, 1 x noise a boot", boot, line=boot),
        Noise("random walk, 0.25 x noise a boot", boot, walk=0.25 * boot),
        Noise("random walk, 1 x noise a boot", boot, walk=boot),
        Noise("one lasting jump, s.d. 3 x noise", boot, jump=3 * boot),
        Noise("arrivals of a pair, s.d. 3 x noise", boot, shared=3 * boot),
        Noise("heavy tails (t, 3 d.f.)", boot, tails=3),
        Noise("heavy tails and random walk", boot, tails=3, walk=0.25 * boot),
        Noise("challenger three times as noisy", boot, challenger=3.0),
    )


def comparisons() -> None:
    """False promotions and power."""
    say(f"sequential comparison, at most {MOST} pairs, {TRIALS:,} trials a line; targets: false <= 1 %, power >= 90 %")
    for boot, gain, within in ((0.008, 0.03, 5), (0.02, 0.05, 8), (0.10, 0.30, 8)):
        say(
            f"  per-boot noise {boot:.1%}, no gain: {'':18} false  bound>0  pairs |"
            f" {gain:.0%} gain: by pair {within}, by {MOST}, pairs"
        )
        for noise in drifts(boot):
            none, some = play(noise, 0.0), play(noise, gain)
            say(
                f"    {noise.name:<40} {none.promoted[MOST]:7.2%}  {none.outside:7.2%}  {none.pairs:5.1f} |"
                f" {some.promoted[within]:21.1%} {some.promoted[MOST]:7.1%}  {some.pairs:5.1f}"
            )
    say("  a gain of 10 x, 15 x, 30 x the noise after two pairs, noise 0.8 %, floor measured:")
    for times in (10, 15, 30):
        say(f"    {times:>2} x: {play(Noise('', 0.008), np.expm1(times * 0.008), floor=0.008).promoted[2]:.1%}")
    say("  false promotions where the floor that is believed is wrong (truth 10 %):")
    for floor in (0.1, 0.03, 0.008):
        both, one = play(Noise("", 0.1), 0.0, floor=floor), play(Noise("", 0.008, challenger=12.5), 0.0, floor=floor)
        say(
            f"    floor {floor:.1%}: both arms {both.promoted[MOST]:.2%}, the challenger alone {one.promoted[MOST]:.2%}"
        )
    say("  the floor of three boots of the baseline: false promotions, by two pairs; pairs, power for 10 x the noise")
    for boot in (0.008, 0.02, 0.10):
        none = play(Noise("", boot), 0.0, repeats=3)
        some = play(Noise("", boot), float(np.expm1(10 * boot)), repeats=3)
        told = f"{none.promoted[MOST]:.2%}, {none.promoted[2]:.2%}; {some.pairs:.1f}, {some.promoted[MOST]:.1%}"
        say(f"    noise {boot:.1%}: {told}")
    say("  bursts in one boot of eight, as they are and measured again: false, bound > 0, pairs; power for 10 %, pairs")
    for boot, times in ((0.008, 1.0), (0.02, 1.0), (0.02, 3.0), (0.06, 1.0), (0.06, 3.0)):
        for burst, again in ((0.0, True), (0.125, False), (0.125, True)):
            noise = Noise("", boot, challenger=times, burst=burst, again=again)
            none, some = play(noise, 0.0), play(noise, 0.10)
            say(
                f"    noise {boot:.1%}, challenger {times:.0f} x, bursts {burst:.1%}, again {again!s:5}:"
                f" {none.promoted[MOST]:.2%}  {none.outside:.2%}  {none.pairs:.1f}; {some.promoted[MOST]:.1%} "
                f" {some.pairs:.1f}"
            )
    say("  by budget (0.8 % noise, no drift): false, power for 3 %, for 10 %")
    for most in (2, 3, 4, 6, 8):
        rows = [play(Noise("", 0.008), g, most=most).promoted[most] for g in (0.0, 0.03, 0.10)]
        say(f"    {most} pairs: {rows[0]:.2%}  {rows[1]:.1%}  {rows[2]:.1%}")


def accuracies() -> None:
    """What the bounds of accuracy do, and what is decidable."""
    say("non-inferiority, one-sided 95 %: chance of `lossless` at a true loss of the margin (at most 5 %), and at none")
    rng = np.random.default_rng(SEED)
    for items, margin, disagreement in ((200, 0.05, 0.06), (1319, 0.01, 0.03), (1319, 0.02, 0.06), (198, 0.03, 0.15)):
        shares = []
        for loss in (margin, 0.0):
            lost, won = (disagreement + loss) / 2, (disagreement - loss) / 2
            drawn = rng.multinomial(items, [lost, won, 1 - disagreement], size=3000)
            kinds, counts = np.unique(drawn[:, :2], axis=0, return_counts=True)
            good = [noninferiority.paired_bounds(items, int(b), int(c))[0] > -margin for b, c in kinds]
            shares.append(float(counts[np.array(good)].sum() / 3000))
        needed = noninferiority.questions(margin, disagreement)
        least = noninferiority.decidable(items, disagreement)
        say(
            f"    {items} questions, margin {margin:.0%}, disagreement {disagreement:.0%}: {shares[0]:.1%},"
            f" {shares[1]:.1%}; {needed} needed, decidable {100 * least:.1f} points"
        )
    say(f"    published 0.965 -> 0.955, n = 200: {noninferiority.marginals(0.965, 0.955, 200, margin=0.01).told()}")


def say(line: str) -> None:
    """To stdout."""
    sys.stdout.write(line + "\n")


def main() -> None:
    """Prints all figures."""
    comparisons()
    for line in knee_trials.lines():
        say(line)
    accuracies()


if __name__ == "__main__":
    main()
