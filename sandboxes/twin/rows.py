"""A simulated point as the load generator's columns: what a client would have seen of each request.

Between two events of the scheduler all steps of a replica last alike, so a request's gaps are counted, not listed:
steps that differ by less than `ALIKE` count as one length, their mean, and a thousand gaps become a dozen numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import inf, log
from typing import TYPE_CHECKING, Any

from day0.sandboxes.twin.replica import NEVER
from day0.sandboxes.twin.simulate import Point
from pydantic_core import to_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Counts = NDArray[np.int64]
    Marks = NDArray[np.bool_]

ALIKE = 0.02
"""of a step's length: more than one request more or less in the batch changes it by"""
US = 1e6
REFUSED = "ClientConnectorError: Cannot connect to host: Connection refused"
BROKEN = "ClientPayloadError: Response payload is not completed"
TOO_LONG = "the input is longer than the KV cache"


@dataclass(frozen=True)
class Cut:
    """What ends requests early: the client's patience; the plan's end, the server's death (from the window's start)."""

    deadline_s: float
    end_s: float
    died_s: float = inf


def requests_json(
    point: Point, cut: Cut, *, window_s: float, planned: bool, hashed: str = "", answer_tokens: int = 0
) -> str:
    """The requests as JSON columns; those sent after the end are not in it. `planned`: times were announced.

    `answer_tokens`: where the model would end an answer in the mean (0 = nobody knows), drawn by `hashed`.
    """
    rows = _Rows(point, cut)
    columns = rows.columns(window_s, planned, hashed)
    columns["forced_tokens"] = rows.forced(columns["output_tokens"], answer_tokens, hashed) if answer_tokens else None
    return to_json(columns).decode()


class _Lane:
    """The runs of decode steps of one replica. `waited`: the first step of a run, with what ran before it."""

    def __init__(self, jumps: list[tuple[float, float, int, int]]) -> None:
        import numpy as np

        table = np.fromiter(chain.from_iterable(jumps), dtype=np.float64, count=4 * len(jumps)).reshape(-1, 4)
        self.begin, self.stop = table[:, 0], table[:, 1]
        self.before, self.after = table[:, 2].astype(np.int64), table[:, 3].astype(np.int64)
        self.pace = (self.stop - self.begin) / (self.after - self.before)
        self.waited = self.pace.copy()
        self.waited[1:] += self.begin[1:] - self.stop[:-1]

    def steps_at(self, moments: Numbers) -> Numbers:
        """Steps done at each moment, parts of a step included."""
        import numpy as np

        if not len(self.begin):
            return np.zeros(len(moments))
        first = self.begin + self.pace
        times = np.stack((first - self.waited, first, self.stop), axis=1).ravel()
        steps = np.stack((self.before, self.before + 1, self.after), axis=1).ravel()
        out: Numbers = np.interp(moments, times, steps.astype(np.float64))
        return out


class _Rows:
    """Requests that were sent, a column per quantity; `limit` is when one that still runs is ended."""

    def __init__(self, point: Point, cut: Cut) -> None:
        import numpy as np

        r = point.requests
        sent = np.array(r.arrive, dtype=np.float64)
        kept = sent < cut.end_s
        self.point, self.cut = point, cut
        self.sent, self.first, self.finish = (
            np.array(c, dtype=np.float64)[kept] for c in (r.arrive, r.first, r.finish)
        )
        self.begin, self.steps, self.replica, self.cached = (
            np.array(c, dtype=np.int64)[kept] for c in (r.step, r.steps, r.replica, r.cached)
        )
        self.prompts, self.outputs = (np.array(c, dtype=np.int64)[kept] for c in (r.prompts, r.outputs))
        self.left = self.outputs - 1
        self.limit = np.minimum(self.sent + cut.deadline_s, min(cut.end_s, cut.died_s))
        self.answered = (self.finish > NEVER) & (self.first <= self.limit) & (self.sent < cut.died_s)
        self.whole = self.answered & (self.finish <= self.limit)
        self.lanes = [_Lane(jumps) for jumps in point.jumps]

    def of(self, number: int, marks: Marks) -> Counts:
        """The marked requests of one replica."""
        out: Counts = (marks & (self.replica == number)).nonzero()[0]
        return out

    @cached_property
    def done(self) -> Counts:
        """Steps of each request that ended by its limit."""
        import numpy as np

        out = np.where(self.whole, self.steps, 0)
        for number, lane in enumerate(self.lanes):
            mine = self.of(number, self.answered & ~self.whole)
            at = np.floor(lane.steps_at(self.limit[mine]) + 1e-9)
            out[mine] = np.clip(at.astype(np.int64) - self.begin[mine], 0, self.steps[mine])
        return out

    @cached_property
    def errors(self) -> dict[int, str]:
        """How the client words what went wrong, by number."""
        out, cut = {}, self.cut
        for number in (~self.whole).nonzero()[0].tolist():
            limit = float(self.limit[number])
            if self.sent[number] >= cut.died_s:
                out[number] = REFUSED
            elif self.finish[number] == NEVER:
                out[number] = TOO_LONG
            elif limit == cut.died_s:
                out[number] = BROKEN
            else:
                out[number] = "cut" if limit == cut.end_s else f"deadline: not done after {cut.deadline_s:.1f} s"
        return out

    def columns(self, window_s: float, planned: bool, hashed: str) -> dict[str, Any]:
        """As `loadgen.py` describes them."""
        import numpy as np

        tokens = np.where(self.whole, self.left, self.done * self.left // np.maximum(self.steps, 1)) + 1
        ended = np.where(self.whole, self.finish, self.limit)
        for number, text in self.errors.items():
            ended[number] = self.sent[number] + {REFUSED: 0.0, TOO_LONG: 1e-3}.get(
                text, ended[number] - self.sent[number]
            )
        gaps, times, runs = self.gaps(tokens - 1)
        sent = _us(self.sent, 10)
        return {
            "count": len(sent),
            "planned_us": sent if planned else None,
            "sent_us": sent,
            "ttft_us": _us(np.where(self.answered, self.first - self.sent, 0.0)),
            "latency_us": _us(ended - self.sent),
            "output_tokens": np.where(self.answered, tokens, 0).tolist(),
            "asked_tokens": _alike(self.prompts),
            "prompt_tokens": _alike(self.prompts),
            "cached_tokens": np.where(self.answered, self.cached, 0).tolist(),
            "in_window": (self.within(window_s) - self.within(0.0)).tolist(),
            "errors": self.errors,
            "hash": hashed,
            "itl_us": gaps.tolist(),
            "itl_times": times.tolist(),
            "itl_runs": runs.tolist(),
        }

    def forced(self, tokens: list[int], mean: int, hashed: str) -> list[int]:
        """Output tokens past the end that the model would have set: lengths of answers fall off exponentially."""
        import numpy as np

        ends = np.ceil(np.random.default_rng(int(hashed or "0", 16)).exponential(mean, len(tokens)))
        out: list[int] = np.maximum(0, np.array(tokens) - ends).astype(np.int64).tolist()
        return out

    def within(self, moment: float) -> Counts:
        """Tokens of each request that came before a moment."""
        import numpy as np

        came = self.answered & (self.first < moment)
        out = came.astype(np.int64)
        for number, lane in enumerate(self.lanes):
            mine = self.of(number, came)
            until = np.minimum(moment, np.minimum(self.finish, self.limit)[mine])
            steps = np.maximum(self.steps[mine], 1)
            done = np.clip(lane.steps_at(until) - self.begin[mine], 0, steps)
            out[mine] += np.floor(done * self.left[mine] / steps + 1e-9).astype(np.int64)
        return out

    def gaps(self, tokens: Counts) -> tuple[Counts, Counts, Counts]:
        """(microseconds, how often, how many of these each request has): the lengths of gaps between its tokens.

        Each step brings its share of a request's tokens.
        """
        import numpy as np

        parts = [np.zeros((3, 0), dtype=np.int64)]
        for number, lane in enumerate(self.lanes):
            mine = self.of(number, self.done > 0)
            if not len(mine):
                continue
            counts, seconds = self._classes(lane, mine)
            upto = np.cumsum(counts, axis=1)
            share = np.diff(upto * tokens[mine][:, np.newaxis] // upto[:, -1:], axis=1, prepend=0)
            row, kind = share.nonzero()
            often = share[row, kind]
            parts.append(np.stack((mine[row], np.rint(US * seconds[row, kind] / often).astype(np.int64), often)))
        request, length, often = np.concatenate(parts, axis=1)
        order = np.argsort(request, kind="stable")
        return length[order], often[order], np.bincount(request, minlength=len(self.sent))

    def _classes(self, lane: _Lane, mine: Counts) -> tuple[Counts, Numbers]:
        """Steps, and their seconds, of requests of one replica: a row per request, a column per class of steps alike.

        Sums over runs of steps are differences of running sums, so that a request costs the number of classes and not
        that of the runs it lived through.
        """
        import numpy as np

        last = self.begin[mine] + self.done[mine]
        enter, leave = np.searchsorted(lane.before, self.begin[mine]), np.searchsorted(lane.before, last) - 1
        own = (lane.begin + lane.pace)[enter] - self.first[mine]  # its first step waited since its first token only
        lengths = np.concatenate((lane.pace, lane.waited, own))
        kinds, kind = np.unique(np.rint(np.log(lengths) / log(1 + ALIKE)), return_inverse=True)
        size = len(lane.begin)
        of_pace, of_waited, of_own = kind[:size], kind[size : 2 * size], kind[2 * size :]
        upto = _Sums(size + 1, len(kinds))
        upto.add(np.arange(size) + 1, of_pace, lane.after - lane.before - 1, lane.pace)
        upto.add(np.arange(size) + 1, of_waited, np.ones(size, dtype=np.int64), lane.waited)
        counts, seconds = upto.counts.cumsum(axis=0), upto.seconds.cumsum(axis=0)
        out = _Sums(0, 0)
        out.counts, out.seconds = counts[leave] - counts[enter], seconds[leave] - seconds[enter]
        rows, once = np.arange(len(mine)), np.ones(len(mine), dtype=np.int64)
        out.add(rows, of_waited[leave], once, lane.waited[leave])
        out.add(rows, of_pace[leave], last - lane.before[leave] - 1, lane.pace[leave])
        out.add(rows, of_waited[enter], -once, lane.waited[enter])
        out.add(rows, of_own, once, own)
        return out.counts, out.seconds


class _Sums:
    """Steps and their seconds by row and class."""

    def __init__(self, rows: int, kinds: int) -> None:
        import numpy as np

        self.counts = np.zeros((rows, kinds), dtype=np.int64)
        self.seconds = np.zeros((rows, kinds))

    def add(self, rows: Counts, kinds: Counts, steps: Counts, length: Numbers) -> None:
        """So many steps of a length; a row comes once."""
        self.counts[rows, kinds] += steps
        self.seconds[rows, kinds] += steps * length


def _alike(values: Counts) -> list[int] | int:
    """One value where all are it."""
    return int(values[0]) if len(values) and (values == values[0]).all() else values.tolist()


def _us(seconds: Numbers, step: int = 1) -> list[int]:
    """Whole microseconds, in steps as a clock has them."""
    import numpy as np

    out: list[int] = (np.rint(seconds * (US / step)).astype(np.int64) * step).tolist()
    return out
