"""A run as one HTML page that needs nothing else: what was found, why it is faster, what holds it back, what was tried.

Everything that comes from outside (names, flags, logs, what a policy wrote) is escaped (S70) and stripped of control
characters; the page has no script and loads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from day0.agent import show, story
from day0.agent.drawing import Chart, Series
from day0.agent.policy.untrusted import line
from day0.runs.errors import UserError
from day0.runs.facts import LoadPoint, Rung
from day0.runs.ledger import Ledger
from day0.runs.schema import Attempt, Run
from day0.runs.workload import Workload
from day0.tools import pareto
from day0.tools.summary import at

STYLE = """
body{font:15px/1.45 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1f2328;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem;border-bottom:1px solid #d0d7de}
.best{font-size:1.15rem;background:#eef6ee;border-left:4px solid #1a7f37;padding:.6rem .9rem}
.sim{background:#fff4d6;border-left:4px solid #9a6700;padding:.4rem .9rem}
table{border-collapse:collapse;width:100%;font-size:.9rem}th,td{text-align:left;padding:.25rem .6rem;vertical-align:top;
border-bottom:1px solid #e4e8ec;overflow-wrap:anywhere}td.n{text-align:right;white-space:nowrap}
svg{width:100%;height:auto;font-size:11px}svg .title{font-size:13px;font-weight:600}
svg .grid{stroke:#e4e8ec}svg .limit{stroke:#d1242f;stroke-dasharray:5 4}.wide{overflow-x:auto}
"""
CELL = 600


def write(ledger: Ledger, run_id: str, output: Path) -> None:
    """Writes the page of a run. Raises `UserError` for an unknown run and a file that can't be written."""
    text = page(ledger, run_id)
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{output} can't be written: {error.strerror}") from None


def page(ledger: Ledger, run_id: str) -> str:
    """The whole page."""
    run, told = ledger.run(run_id), show.summary(ledger, run_id)
    attempts = ledger.attempts(run_id)
    title = f"{told['model']} on {told['target']}"
    parts = [f"<h1>{text(title)}</h1>", f"<p>Run {text(run_id)}, {text(told['status'])}. {text(told['reason'])}</p>"]
    if told["simulated"]:
        parts.append('<p class="sim">Simulated: every figure here comes from the simulated node.</p>')
    for workload, won in zip(run.request.workloads, told["winners"], strict=True):
        parts += _workload(run, workload, won, attempts)
    parts += ["<h2>Attempts</h2>", _attempts(told["attempts"])]
    if told["refused"]:
        rows = [(r["round"], r["action"].get("hypothesis", ""), r["reason"]) for r in told["refused"]]
        parts += ["<h2>Refused</h2>", table(("round", "what", "why"), rows)]
    head = f'<meta charset="utf-8"><title>{text(title)}</title><style>{STYLE}</style>'
    policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{policy}{head}</head>\n<body>\n{body}\n</body></html>\n'


def _workload(run: Run, workload: Workload, won: Mapping[str, Any], attempts: Sequence[Attempt]) -> Iterator[str]:
    yield f"<h2>{text(workload.name)}</h2>"
    yield f'<p class="best">{text(show.best_line(won, simulated=run.request.target.kind == "twin"))}</p>'
    if won["accuracy"] is not None:
        yield f"<p>{text(show.answers_line(won))}</p>"
    yield f"<p>{workload.input_tokens} tokens in, {workload.output_tokens} out, {text(workload.arrival)}, "
    yield f"{workload.cached_share:.0%} of the input shared.</p>"
    if won["waterfall"]:
        yield "<h3>Why it is faster</h3>"
        yield table(
            ("change", "gain", "in all", "tok/s a node", "why it was tried"),
            [(w["change_words"], pct(w["gain"]), pct(w["total"]), w["goodput_tok_s"], w["hypothesis"])
             for w in won["waterfall"]],
        )  # fmt: skip
    named = {"baseline": run.baseline, "winner": won["attempt"] or run.leader}
    chosen = {k: next((a for a in attempts if a.id == v), None) for k, v in named.items()}
    shown = {k: a for k, a in chosen.items() if a is not None and not (k == "winner" and a.id == run.baseline)}
    held = [(k, d.name, d.evidence, d.experiment) for k, a in shown.items() for d in a.diagnoses(workload.name)]
    if held:
        yield "<h3>What holds it back</h3>"
        yield table(("", "limit", "evidence", "what would lift it"), held)
    yield curves(workload, shown)
    yield interactivity(workload, attempts, shown)
    if won["stability"]:
        yield "<h3>Under load for long</h3>"
        yield table(("", ""), [(k.replace("_", " "), v) for k, v in won["stability"].items()])


def measured(attempt: Attempt, workload: Workload) -> tuple[LoadPoint, ...]:
    """The points of its last boot that was measured, in order of their rates."""
    boot = max((b for b, rung, p in attempt.points if rung == Rung.MEASURE and p.workload == workload.name), default=0)
    own = [p for b, rung, p in attempt.points if b == boot and rung == Rung.MEASURE and p.workload == workload.name]
    return tuple(sorted((p for p in own if not p.warmup), key=lambda p: p.rate_rps or 0.0))


def curves(workload: Workload, shown: Mapping[str, Attempt]) -> str:
    """Latency against the offered rate, with the limit of the workload."""
    slo, series = workload.slo, []
    for name, attempt in shown.items():
        rated = [p for p in measured(attempt, workload) if p.rate_rps and p.ttft_ms and p.void is None]
        spots = tuple((p.rate_rps or 0.0, at(p.ttft_ms, slo.ttft_percentile)) for p in rated if p.ttft_ms)
        notes = tuple(f"{name}: {x:.3g}/s, {y:.0f} ms" for x, y in spots)
        series.append(Series(f"{name} {_short(attempt.id)}", spots, notes=notes))
    limit = None if slo.ttft_ms is None else (slo.ttft_ms, f"limit {slo.ttft_ms:.0f} ms")
    name = f"p{slo.ttft_percentile} TTFT, ms"
    return Chart("Latency against load", "offered requests/s per node", name, series, limit).svg()


def interactivity(workload: Workload, attempts: Iterable[Attempt], shown: Mapping[str, Attempt]) -> str:
    """Throughput per accelerator held against tok/s per user: all sound points, the frontier, and equal comparisons."""
    found = {a.id: spots_of(a, workload) for a in attempts}
    every = [s for spots in found.values() for s in spots]
    edge = pareto.frontier(every)
    series = [
        Series("all attempts", _pairs(every), joined=False, faint=True, notes=_notes(every)),
        Series("frontier", _pairs(edge), notes=_notes(edge)),
        *(Series(f"{k} {_short(a.id)}", _pairs(found[a.id]), notes=_notes(found[a.id])) for k, a in shown.items()),
    ]
    held = any(a.candidate.gpus_held > 1 for a in shown.values())
    name = "output tok/s per accelerator held" if held else "output tok/s per node"
    drawn = Chart("Throughput against interactivity", "output tok/s per user (1 / median TPOT)", name, series).svg()
    if set(shown) != {"baseline", "winner"}:
        return drawn
    same = pareto.equal(found[shown["baseline"].id], found[shown["winner"].id])
    if same is None:
        return drawn + "<p>Baseline and winner were not measured at the same interactivity.</p>"
    more = pct(same.second / same.first - 1) if same.first else ""
    return drawn + (
        f"<p>At {same.user_tok_s:.1f} tok/s per user: baseline {same.first:.4g}, winner {same.second:.4g} ({more}).</p>"
    )


def spots_of(attempt: Attempt, workload: Workload) -> tuple[pareto.Spot, ...]:
    """An attempt's points, by the accelerators that it holds."""
    return pareto.spots(measured(attempt, workload), attempt.candidate.gpus_held, _short(attempt.id))


def same_interactivity(ledger: Ledger, first: str, second: str) -> dict[str, dict[str, float] | None]:
    """The leaders of two runs at one interactivity, by workload; None where theirs do not meet (S49, S50)."""
    found: list[dict[str, tuple[pareto.Spot, ...]]] = []
    for run_id in (first, second):
        run, told = ledger.run(run_id), {}
        for workload in run.request.workloads:
            best = story.winner(ledger, run_id, workload.name) or run.leader
            told[workload.name] = spots_of(ledger.attempt(best), workload) if best else ()
        found.append(told)
    both = sorted({*found[0]} & {*found[1]})
    same = {name: pareto.equal(found[0][name], found[1][name]) for name in both}
    return {name: None if one is None else one._asdict() for name, one in same.items()}


def _pairs(found: Iterable[pareto.Spot]) -> tuple[tuple[float, float], ...]:
    return tuple((s.user_tok_s, s.held_tok_s) for s in found)


def _notes(found: Iterable[pareto.Spot]) -> tuple[str, ...]:
    return tuple(f"{s.name}: {s.user_tok_s:.1f} tok/s per user, {s.held_tok_s:.4g}" for s in found)


def _short(attempt_id: str) -> str:
    return attempt_id.rpartition("-")[2]


def _attempts(rows: Iterable[Mapping[str, Any]]) -> str:
    return table(
        ("attempt", "status", "change", "knee 1/s", "tok/s", "gain", "held back by", "why"),
        [
            (
                _short(r["attempt"]),
                r["status"],
                r["change_words"] or r["axis"],
                r["knee_rps"],
                r["goodput_tok_s"],
                pct(r["gain"]),
                ", ".join(d["name"] for d in r["explained"]),
                r["reason"],
            )
            for r in rows
        ],
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; every cell is text, numbers to four digits."""
    head = "".join(f"<th>{text(c)}</th>" for c in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>\n" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>'


def _cell(value: object) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f'<td class="n">{value:.4g}</td>' if isinstance(value, float) else f'<td class="n">{value}</td>'
    return f"<td>{text(value)}</td>"


def pct(value: float | None) -> str:
    """A gain."""
    return "" if value is None else f"{value:+.1%}"


def text(value: object) -> str:
    """Anything as escaped text of one line; nothing for None."""
    return "" if value is None else escape(line(str(value), CELL), quote=True)
