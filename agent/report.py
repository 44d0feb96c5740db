"""A run as one HTML page that needs nothing else: what was found, why it is faster, what holds it back, what was tried.

Everything that comes from outside (names, flags, logs, what a policy wrote) is escaped (S70) and stripped of control
characters; the page has no script and loads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from day0.agent import charts, painting, show, show_llm
from day0.agent.barring import Waterfall
from day0.agent.drawing import Chart
from day0.agent.policy.untrusted import line
from day0.agent.printing import pct, short
from day0.agent.show_best import answers_line, best_line, gain_words, kernels_line, stability_line
from day0.runs.errors import UserError
from day0.runs.ledger import Ledger
from day0.runs.schema import Attempt, Run
from day0.runs.workload import Workload
from day0.tools import pareto

STYLE = """
body{font:15px/1.45 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1f2328;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem;border-bottom:1px solid #d0d7de}
.best{font-size:1.15rem;background:#eef6ee;border-left:4px solid #1a7f37;padding:.6rem .9rem}
.sim{background:#fff4d6;border-left:4px solid #9a6700;padding:.4rem .9rem}
table{border-collapse:collapse;width:100%;font-size:.9rem}th,td{text-align:left;padding:.25rem .6rem;vertical-align:top;
border-bottom:1px solid #e4e8ec;overflow-wrap:anywhere}td.n{text-align:right;white-space:nowrap}
svg{width:100%;height:auto;font-size:11px}svg .title{font-size:13px;font-weight:600}
svg .sim{fill:#9a6700;font-weight:600}svg .note{fill:#57606a;font-size:10px}
svg .grid{stroke:#e4e8ec}svg .limit{stroke:#d1242f;stroke-dasharray:5 4}.wide{overflow-x:auto}
"""
CELL = 600


def write(ledger: Ledger, run_id: str, output: Path) -> tuple[tuple[Path, ...], str]:
    """Writes the page of a run and its pictures beside it: the files, and why there is no picture (empty: there are).

    Raises `UserError` for an unknown run and a file that can't be written.
    """
    _save(output, page(ledger, run_id).encode())
    files = [output]
    try:
        for name, picture in pictures(ledger, run_id):
            if (data := painting.png(picture)) is not None:
                files.append(output.with_name(f"{output.stem}-{name}.png"))
                _save(files[-1], data)
    except painting.Missing as missing:
        return tuple(files), str(missing)
    return tuple(files), ""


def _save(file: Path, data: bytes) -> None:
    try:
        file.write_bytes(data)
    except OSError as error:
        raise UserError(f"{file} can't be written: {error.strerror}") from None


def pictures(ledger: Ledger, run_id: str) -> Iterator[tuple[str, Chart | Waterfall]]:
    """Every picture of a run with a name for its file."""
    run, told, attempts = ledger.run(run_id), show.summary(ledger, run_id), ledger.attempts(run_id)
    for workload, won in zip(run.request.workloads, told["winners"], strict=True):
        shown = compared(run, won, attempts)
        for kind, picture in drawn(run, workload, won, attempts, shown):
            yield f"{workload.name}-{kind}", picture


def compared(run: Run, won: Mapping[str, Any], attempts: Sequence[Attempt]) -> dict[str, Attempt]:
    """The baseline, and the winner or who leads, by these names; one where they are the same."""
    named = {"baseline": run.baseline, "winner" if won["attempt"] else "leader": won["attempt"] or run.leader}
    chosen = {k: next((a for a in attempts if a.id == v), None) for k, v in named.items()}
    return {k: a for k, a in chosen.items() if a is not None and (k == "baseline" or a.id != run.baseline)}


def drawn(
    run: Run, workload: Workload, won: Mapping[str, Any], attempts: Sequence[Attempt], shown: Mapping[str, Attempt]
) -> Iterator[tuple[str, Chart | Waterfall]]:
    """The pictures of a workload."""
    label = charts.label_of(workload, shown.values(), simulated=run.request.target.kind == "twin")
    yield "changes", charts.changes(workload, won["waterfall"], label)
    yield "latency", charts.curves(workload, shown, label)
    yield "tpot", charts.tokens(workload, shown, label)
    yield "interactivity", charts.interactivity(workload, attempts, shown, label)


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
    led = [told["policy_note"], *(show_llm.words(told["llm"]) if told["llm"] else ())]
    parts += [f"<p>{text(line(words, 400))}</p>" for words in led if words]
    parts += ["<h2>Noise</h2>", *(f"<p>{text(words)}</p>" for words in told["noise"]["words"])]
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
    yield f'<p class="best">{text(best_line(won, simulated=run.request.target.kind == "twin"))}</p>'
    beside = (answers_line(won), kernels_line(won), stability_line(won))
    yield from (f"<p>{text(told)}</p>" for told in beside if told)
    yield f"<p>{workload.input_tokens} tokens in, {workload.output_tokens} out, {text(workload.arrival)}, "
    yield f"{workload.cached_share:.0%} of the input shared.</p>"
    shown = compared(run, won, attempts)
    svg = {kind: picture.svg() for kind, picture in drawn(run, workload, won, attempts, shown)}
    if won["waterfall"]:
        yield "<h3>Why it is faster</h3>"
        yield svg["changes"]
        yield "<p>Blue: what a change brought when it came. Red: what the winner loses without it.</p>"
        columns = ("step", "change", "gain", "in all", "tok/s a node", "without it in the end", "why it was tried")
        yield table(columns, [_step(w) for w in won["waterfall"]])
    held = [(k, d.name, d.evidence, d.experiment) for k, a in shown.items() for d in a.diagnoses(workload.name)]
    if held:
        yield "<h3>What holds it back</h3>"
        yield table(("", "limit", "evidence", "what would lift it"), held)
    if won["comparisons"]:
        yield "<h3>Against the baseline, in pairs of boots</h3>"
        rows = [(short(c["challenger"]), gain_words(c), c["method"]) for c in won["comparisons"]]
        yield table(("attempt", "gain", "method"), rows)
    yield svg["latency"] + svg["tpot"] + svg["interactivity"]
    yield same_interactivity(workload, shown)
    if won["stability"]:
        yield "<h3>Under load for long</h3>"
        told = [(k.replace("_", " "), "not available" if v is None else v) for k, v in won["stability"].items()]
        yield table(("", ""), told)


def _step(row: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        short(row["attempt"]),
        row["change_words"],
        pct(row["gain"]),
        pct(row["total"]),
        row["goodput_tok_s"],
        row["ablation_words"],
        row["hypothesis"],
    )


def same_interactivity(workload: Workload, shown: Mapping[str, Attempt]) -> str:
    """Baseline and winner at one tok/s per user (S49)."""
    if len(shown) < 2:
        return ""
    (_, first), (name, second) = shown.items()
    same = pareto.equal(charts.spots_of(first, workload), charts.spots_of(second, workload))
    if same is None:
        return f"<p>Baseline and {name} were not measured at the same interactivity.</p>"
    more = pct(same.second / same.first - 1) if same.first else ""
    told = f"At {same.user_tok_s:.1f} tok/s per user: baseline {same.first:.4g}, {name} {same.second:.4g} ({more})."
    return f"<p>{told}</p>"


def _attempts(rows: Iterable[Mapping[str, Any]]) -> str:
    return table(
        ("attempt", "status", "change", "knee 1/s", "tok/s", "gain", "held back by", "why"),
        [
            (
                short(r["attempt"]),
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


def text(value: object) -> str:
    """Anything as escaped text of one line; nothing for None."""
    return "" if value is None else escape(line(str(value), CELL), quote=True)
