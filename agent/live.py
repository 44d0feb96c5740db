"""Progress for people: a live panel on a terminal, plain lines elsewhere. Nothing here decides anything."""

from __future__ import annotations

import sys
import time
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING

from day0.agent.policy.untrusted import line
from day0.runs.facts import (
    BootEnded,
    BootReady,
    Fact,
    FigureChecked,
    KneeFound,
    PairMeasured,
    PointMeasured,
    Progress,
    Rung,
    RungStarted,
    Verdict,
)
from day0.runs.findings import Explained, Held
from day0.runs.ledger import Ledger
from day0.runs.schema import Event, Run

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live

LAST_LINES = 10
LADDER = (Rung.PREPARE, Rung.BOOT, Rung.ANSWER, Rung.SCREEN, Rung.ACCURACY, Rung.MEASURE)
STEPS = {
    1: "submit",
    2: "survey",
    3: "propose",
    4: "admit",
    5: "climb",
    6: "decide",
    7: "confirm",
    8: "replay",
    9: "review",
}
MARKS = {None: "·", True: "✓", False: "✗"}


def words(fact: Fact) -> str:  # noqa: PLR0911 - one line per kind of fact
    """One line about a fact; "" for what only evidence needs."""
    match fact:
        case Verdict(passed=True):
            return f"{fact.rung} passed{': ' + fact.detail if fact.detail else ''}"
        case Verdict():
            return f"{fact.rung} failed: {fact.failure or 'unknown'}: {fact.evidence}"
        case PointMeasured(point=p):
            load = f"{p.rate_rps:.3g} requests/s" if p.rate_rps is not None else f"{p.concurrency} clients"
            ttft = f", TTFT p95 {p.ttft_ms.p95:.0f} ms" if p.ttft_ms else ""
            tpot = f", TPOT p50 {p.tpot_ms.p50:.1f} ms" if p.tpot_ms else ""
            end = f"void: {p.void}" if p.void else ("holds" if p.meets_slo else "misses: " + "; ".join(p.misses))
            return f"{fact.rung} at {load}: {p.output_tok_s:.1f} tok/s{ttft}{tpot} ({p.beside()}): {end}"
        case KneeFound(knee=k):
            return f"{fact.rung}: knee of {k.workload} at {k.told()} requests/s, {k.goodput_tok_s:.1f} tok/s"
        case Explained(found=(first, *_)):
            return f"{fact.workload} is held back by: {first.name}: {first.evidence}"
        case Held():
            return f"{fact.workload} for {fact.found.seconds:.0f} s under load: {fact.found.failed} requests failed"
        case PairMeasured(pair=p):
            return f"pair {p.number}: {p.incumbent.told()} against {p.challenger.told()} requests/s"
        case FigureChecked():
            span = " to ".join("-" if side is None else f"{side:.4g}" for side in (fact.low, fact.high))
            told = "ok" if fact.within else "OUTSIDE"
            return f"replay: {fact.name} {fact.measured:.4g} {fact.unit}, range {span}: {told}"
        case BootReady():
            return f"ready after {fact.facts.ready_s:.1f} s{_worn(fact)}"
        case BootEnded(reason="stopped"):
            return ""
        case BootEnded():
            return f"boot {fact.boot} ended: {fact.reason}"
        case _:
            return ""


def _worn(fact: BootReady) -> str:
    if fact.worn is None:
        return ""
    loaded = f", {len(fact.worn.loaded)} loaded by the server" if fact.worn.loaded else ""
    return f", on overlay {fact.worn.image[7:19]}: {len(fact.worn.files)} files read back{loaded}"


class Screen:
    """Shows one run while it is worked on. With `quiet` nothing is shown but to a terminal's stderr."""

    def __init__(self, ledger: Ledger, run: Run, *, quiet: bool) -> None:
        self.ledger, self.run, self.quiet = ledger, run, quiet
        self.simulated = run.request.target.kind == "twin"
        self.start = time.monotonic()
        self.lines: deque[str] = deque(maxlen=LAST_LINES)
        self.rungs: dict[Rung, bool | None] = {}
        self.attempt, self.now, self.best = "", "", ""
        self._live: Live | None = None
        self._console: Console | None = None

    def __enter__(self) -> Screen:
        if sys.stderr.isatty() and not self.quiet:
            from rich.console import Console
            from rich.live import Live

            self._console = Console(stderr=True)
            self._live = Live(self._panel(), console=self._console, refresh_per_second=4, transient=True)
            self._live.start()
        asked = self.run.request.options.get("asked_for", self.run.request.model)
        told = " (simulated)" if self.simulated else ""
        self._say(f"1/9 {STEPS[1]}: run {self.run.id}: {asked} on {self.run.request.target.name}{told}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def heard(self, run: str, attempt: str, fact: Fact) -> None:
        """What the controller wrote or was told."""
        if isinstance(fact, Progress) and fact.step is not None:
            self.now = f"{STEPS[fact.step]}: {fact.text}"
            self._say(f"{fact.step}/9 {STEPS[fact.step]}: {fact.text}")
            return
        if attempt != self.attempt:
            self.attempt, self.rungs = attempt, {}
            self._introduce(attempt)
        if isinstance(fact, RungStarted):
            self.rungs[fact.rung] = None
            self.now = str(fact.rung)
        if isinstance(fact, Verdict):
            self.rungs[fact.rung] = fact.passed
        if isinstance(fact, Progress):
            self.now = fact.text
        if text := words(fact):
            self._say(f"{attempt.rpartition('-')[2]} {text}")
        if isinstance(fact, Verdict | KneeFound | PairMeasured):
            self._lead()
        if self._live is not None:
            self._live.update(self._panel())

    def event(self, event: Event) -> None:
        """The same for whoever follows another process, from the ledger's events."""
        from pydantic import TypeAdapter, ValidationError

        try:
            fact: Fact = TypeAdapter(Fact).validate_python({**event.data, "kind": event.kind})
        except ValidationError:
            return  # an event of the run, not a fact of a climb
        self.heard(event.run, event.attempt or event.run, fact)

    def _introduce(self, attempt: str) -> None:
        if attempt == self.run.id:
            return
        known = self.ledger.attempt(attempt)
        base = next((a for a in self.ledger.attempts(self.run.id) if a.id == known.parent), None)
        change = known.candidate.changed(base.candidate) if base else {}
        what = ", ".join(f"{k}={v[1]}" for k, v in change.items()) or known.proposer
        self._say(f"{attempt.rpartition('-')[2]} {known.action or known.proposer}: {what}")

    def _lead(self) -> None:
        run = self.ledger.run(self.run.id)
        if run.leader is None:
            return
        lead, name = self.ledger.attempt(run.leader), run.request.workloads[0].name
        base = self.ledger.attempt(run.baseline) if run.baseline else None
        knee, first = lead.knee(name), base.knee(name) if base else None
        if knee is None:
            return
        gain = f", {knee.rate_rps / first.rate_rps - 1:+.0%} over the baseline" if first and base != lead else ""
        told = " (simulated)" if self.simulated else ""
        self.best = f"best: {lead.id}: {knee.told()} requests/s, {knee.goodput_tok_s:.1f} tok/s{gain}{told}"

    def _say(self, text: str) -> None:
        mark = " sim" if self.simulated else ""
        stamp = f"[{time.monotonic() - self.start:7.1f}s{mark}] {line(text, 240)}"
        self.lines.append(stamp)
        if self._live is None:
            sys.stderr.write(stamp + "\n")
            sys.stderr.flush()

    def _panel(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        ladder = "  ".join(f"{MARKS[self.rungs[r]] if r in self.rungs else ' '} {r}" for r in LADDER)
        top = Text(self.best or f"run {self.run.id}", style="bold green")
        here = Text(f"{self.attempt}  {ladder}", style="cyan")
        return Group(top, here, *(Text(old, style="dim") for old in self.lines), Text(f"… {line(self.now, 160)}"))
