"""What an LLM gets to see of a run: one pure function of the view, within a fixed budget of characters.

The context is rebuilt from the view at each step, so a run continues from the ledger alone. What a log, a model's
files or an earlier answer says is fenced data. Trimming is by fixed levels, so equal views give equal prompts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from day0.agent.policy.actions import Action
from day0.agent.policy.axes import Offer, offers, site_of
from day0.agent.policy.context_crafts import explained, fallbacks, made, named
from day0.agent.policy.context_facts import beside, briefly, foretold, taught
from day0.agent.policy.decide import gain, threshold, worth
from day0.agent.policy.trials import standing
from day0.agent.policy.untrusted import cut, fence, line
from day0.runs.facts import Rung
from day0.runs.schema import Attempt

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView

# About four characters a token: 8,000 tokens, which every current model takes with as much again of conversation.
BUDGET = 32_000


@dataclass(frozen=True)
class Level:
    """How much of each part is shown; the first level that fits the budget is taken."""

    attempts: int
    answers: int
    answer_chars: int
    reasons: bool
    unusable: bool
    options: int
    layouts: int


LEVELS = (
    Level(60, 8, 8000, True, True, 4, 8),
    Level(30, 4, 8000, True, True, 3, 6),
    Level(16, 2, 6000, True, False, 2, 4),
    Level(8, 2, 1500, False, False, 1, 3),
    Level(4, 1, 200, False, False, 1, 0),
)


def build(view: RunView, advice: Sequence[Action] = (), budget: int = BUDGET, *, room: int | None = None) -> str:
    """The user message of a step: at most `budget` characters. `room`: own ideas that are affordable. Pure."""
    text, offered = "", offers(site_of(view))
    for level in LEVELS:
        text = "\n\n".join(part for part in _parts(view, advice, level, offered, room) if part)
        if len(text) <= budget:
            return text
    return cut(text, budget)


def _parts(
    view: RunView, advice: Sequence[Action], level: Level, offered: Sequence[Offer], room: int | None
) -> tuple[str, ...]:
    return (
        _task(view, room),
        _place(view),
        foretold(view, level.layouts),
        _standing(view, offered),
        _attempts(view, level),
        beside(view, level.attempts // 4),
        taught(view, level.attempts // 4),
        _axes(offered, level),
        made(view) if site_of(view).kind != "cpu" else "",
        _advice(advice),
        _answers(view, level),
    )


def _task(view: RunView, room: int | None) -> str:
    request = view.request
    rows = [f"# Task\nObjective: {request.objective.value}. Round {view.round}. Attempts left: {view.attempts_left}."]
    rows.append(f"Node seconds left for the search: {view.budget_left_s:.0f}.")
    if room is not None:
        rows.append(f"Ideas of your own that the budget pays for beside the playbook's plan: {room}.")
    for number, work in enumerate(request.workloads):
        slo = work.slo
        ttft = f"p{slo.ttft_percentile} TTFT <= {slo.ttft_ms:g} ms" if slo.ttft_ms else "TTFT free"
        tpot = f"p{slo.tpot_percentile} TPOT <= {slo.tpot_ms:g} ms" if slo.tpot_ms else "TPOT free"
        leads = " (leads the search)" if number == 0 and len(request.workloads) > 1 else ""
        rows.append(
            f"Workload {work.name}{leads}: {work.input_tokens} tokens in, {work.output_tokens} out, {work.arrival}, "
            f"{work.cached_share:.0%} shared prefix over {work.prefixes} prefixes; {ttft}, {tpot}, "
            f"{slo.success_share:.0%} of requests must succeed."
        )
    return "\n".join(rows)


def _place(view: RunView) -> str:
    model, node, target = view.model, view.node, view.request.target
    memory = f"{node.memory_bytes / 1e9:.0f} GB" if node.memory_bytes else "unknown memory"
    weights = f"{model.weight_bytes / 1e9:.3g} GB" if model.weight_bytes else "unknown size"
    facts = (
        f"architecture {model.architecture}, {model.layers} layers, hidden {model.hidden}, {model.heads} heads, "
        f"{model.kv_heads} KV heads, {model.experts} experts (top {model.experts_per_token}), context {model.context}, "
        f"{model.dtype}, quantization {model.quantization or 'none'}, draft layers {model.nextn_layers}, {weights}"
    )
    cores = len(target.server_cores) or node.cores or "unknown"
    return "\n".join(
        (
            "# Where it runs",
            f"Target {line(target.name, 64)}: accelerator {line(target.accelerator, 40)} x {target.gpus or node.gpus}; "
            f"server cores {cores}; {memory}; processor {line(node.cpu or 'unknown', 80)}.",
            f"Engine {line(view.engine.engine, 20)} {line(view.engine.version, 40)}; the target itself sets "
            f"{_flags(dict(target.base_flags), dict(target.base_env)) or 'nothing'}.",
            fence(facts, "model facts, from the checkpoint's own files", 700),
        )
    )


def _standing(view: RunView, offered: Sequence[Offer]) -> str:
    now = standing(view, offered)
    if now is None:
        return "# Standing\nThe baseline has not run yet."
    rows = [f"# Standing\nLeader: {now.leader.id}; baseline: {view.baseline}."]
    baseline = view.attempt(view.baseline or "")
    more = gain(now.leader, baseline, view.request, now.gpus)
    if more is not None and baseline is not None and baseline.id != now.leader.id:
        rows.append(f"The leader is {more:+.1%} over the baseline.")
    rows.append(f"Boot-to-boot noise {view.noise:.1%}: only gains above {threshold(view.noise):.1%} count.")
    rows.append(f"The leader's knee is limited by: {', '.join(sorted(now.limits)) or 'nothing recognised'}.")
    rows += explained(now.leader, view)
    rows.append(f"The leader runs with: {_flags(dict(now.leader.candidate.flags), dict(now.leader.candidate.env))}")
    return "\n".join(rows)


def _attempts(view: RunView, level: Level) -> str:
    anchors = {view.leader, view.baseline}
    by_worth = sorted(view.attempts, key=lambda a: (-(worth(a, view.request, view.node.gpus) or 0), a.number))
    newest = sorted(view.attempts, key=lambda a: -a.number)
    wanted: dict[str, Attempt] = {a.id: a for a in view.attempts if a.id in anchors}
    for pair in zip(newest, by_worth, strict=True):
        for attempt in pair:
            if len(wanted) < level.attempts:
                wanted[attempt.id] = attempt
    shown = sorted(wanted.values(), key=lambda a: a.number)
    hidden = len(view.attempts) - len(shown)
    rows = [_row(a, view, level) for a in shown]
    note = f"\n({hidden} more attempts are not shown)" if hidden else ""
    return "# Attempts\n" + ("\n".join(rows) or "none yet") + note


def _row(attempt: Attempt, view: RunView, level: Level) -> str:
    parent = view.attempt(attempt.parent or "")
    base = parent.candidate if parent else None
    changes = attempt.candidate.changed(base) if base else {}
    moved = ", ".join(
        f"{line(k, 60)} {_value(named(k, old, view))}→{_value(named(k, new, view))}"
        for k, (old, new) in changes.items()
    )
    knee = attempt.knee(view.request.workloads[0].name)
    figures = f"knee {knee.told()} req/s, {knee.goodput_tok_s:.4g} tok/s" if knee else "no knee"
    failed = next((v for v in attempt.verdicts if not v.passed), None)
    ended = attempt.status.value + (f" at {failed.rung.value}" if failed else "")
    points = [p for _, rung, p in attempt.points if rung == Rung.MEASURE and not p.void]
    misses = sorted({m for p in points for m in p.misses})
    more = gain(attempt, parent, view.request, view.node.gpus) if parent else None
    rows = f"{attempt.id} [{ended}] {moved or 'the defaults'} (on {attempt.parent or '-'}): {figures}"
    rows += f", {more:+.1%} over its parent" if more is not None else ""
    rows += fallbacks(attempt, view)
    if level.reasons:
        rows += f"; misses: {line('; '.join(misses), 120)}" if misses else ""
        rows += "\n" + fence(attempt.reason, f"why {attempt.id} ended", 240) if attempt.reason else ""
    return rows


def _axes(offered: Sequence[Offer], level: Level) -> str:
    rows = ["# Axes (name: options; expected gain; why)"]
    for one in offered:
        if not one.options:
            if level.unusable:
                rows.append(f"- {one.axis.name}: not here: {line(one.reason, 120)}")
            continue
        options = " | ".join(_flags(dict(o.flags), dict(o.env)) or o.label for o in one.options[: level.options])
        lossy = "; may change outputs" if one.axis.lossy else ""
        rows.append(f"- {one.axis.name}: {options}; {one.axis.gain:+.0%}; {one.axis.why}{lossy}")
    return "\n".join(rows)


def _advice(advice: Sequence[Action]) -> str:
    if not advice:
        return ""
    rows = [json.dumps(action.model_dump(mode="json"), sort_keys=True, ensure_ascii=True) for action in advice]
    return "# What the playbook would do (you may follow it, or do better)\n" + "\n".join(rows)


def _answers(view: RunView, level: Level) -> str:
    if not view.answers:
        return ""
    rows = ["# Answers and refusals, latest last"]
    for answer in view.answers[-level.answers :]:
        label = f"{'refused' if answer.refused else 'answer'} to {briefly(answer.action)} in round {answer.round}"
        rows.append(fence(answer.text, label, level.answer_chars))
    return "\n".join(rows)


def _flags(flags: dict[str, object], env: dict[str, object]) -> str:
    parts = [f"--{line(k, 60)} {_value(v)}" for k, v in sorted(flags.items())]
    parts += [f"{line(k, 60)}={_value(v)}" for k, v in sorted(env.items())]
    return " ".join(parts)


def _value(value: object) -> str:
    if value is None:
        return "(absent)"
    return str(value).lower() if isinstance(value, bool) else line(str(value), 80)


def help_text(view: RunView, word: str, limit: int = 4000) -> str:
    """What the engine's own --help says about flags that mention a word, as fenced data."""
    wanted = word.lower().strip().lstrip("-")
    found = [
        f"--{f.name} {'|'.join(f.choices) or (f.metavar if f.takes_value else '')} {f.help}"
        for f in view.engine.flags
        if wanted in f"{f.name} {' '.join(f.aliases)} {f.help}".lower()
    ]
    # the name says more than the text: those that carry the word in their name come first
    found.sort(key=lambda text: (wanted not in text.split(" ", 1)[0], text))
    return fence("\n".join(found) or "no flag mentions it", f"--help about {word}", limit)
