"""Canaries that need more than a text: log-probabilities, chat template, tool call, reasoning split, JSON schema. Pure.

Each is one call of the engine's HTTP API, put together with the other questions at the served concurrency, on whatever
configuration the candidate has. What the reference itself does not do says nothing about a candidate and is told as
not applicable, with the reason; nothing passes that was not seen to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from math import isnan
from typing import Any

from day0.runs.accuracy import Canary, CanaryState
from day0.runs.values import Frozen
from day0.tools.served import Answer, Question

PREFIX = "probe:"
LOGPROBS, TEMPLATE, TOOL, REASONING, SCHEMA = "log-probabilities", "chat template", "tool call", "reasoning", "schema"
NAMES = (LOGPROBS, TEMPLATE, TOOL, REASONING, SCHEMA)
DROP_NATS = 0.1
"""Mean log-probability of given text may fall so far: its perplexity is then 10 % higher. Other kernels
and an FP8 cache move it by hundredths."""
LEAST_LOGPROB = -30.0
"""what a token of probability zero counts"""
THINK_TOKENS, TOOL_TOKENS, SCHEMA_TOKENS = 2048, 512, 64
CHAT, RAW = "/v1/chat/completions", "/generate"
CITY = "Paris"
COLOURS = ["red", "green", "blue"]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The current weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
FORM = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": COLOURS}, "round": {"type": "boolean"}},
    "required": ["colour", "round"],
    "additionalProperties": False,
}


class Kit(Frozen):
    """What a boot is asked. `forced`: texts whose log-probabilities are compared."""

    forced: tuple[str, ...] = ()
    chat_template: bool = True
    tool_parser: str = ""
    reasoning_parser: str = ""


def questions(kit: Kit) -> list[Question]:
    """One call each, a call a text for the log-probabilities."""
    out = [
        Question(key=f"{PREFIX}{LOGPROBS}:{i}", path=RAW, body=_forced(text), prompt=text, max_tokens=1)
        for i, text in enumerate(kit.forced)
    ]
    if kit.chat_template:
        talk = [
            {"role": "system", "content": "You answer in one word."},
            {"role": "user", "content": "The box is blue."},
            {"role": "assistant", "content": "Noted."},
            {"role": "user", "content": "Which colour is the box?"},
        ]
        out.append(_chat(TEMPLATE, talk, 4))
    if kit.tool_parser:
        ask = f"What is the weather in {CITY}? Call the tool."
        out.append(_chat(TOOL, [_user(ask)], TOOL_TOKENS, tools=[WEATHER], tool_choice="auto"))
    if kit.reasoning_parser:
        out.append(_chat(REASONING, [_user("What is 17 + 25? Think first.")], THINK_TOKENS, separate_reasoning=True))
    form = {"type": "json_schema", "json_schema": {"name": "ball", "schema": FORM, "strict": True}}
    ask = "Describe a red ball as JSON with its colour and whether it is round."
    out.append(_chat(SCHEMA, [_user(ask)], SCHEMA_TOKENS, response_format=form))
    return out


def judge(kit: Kit, answers: Sequence[Answer], reference: Sequence[Answer] | None) -> tuple[Canary, ...]:
    """Every canary, asked or not. `reference`: the answers of the reference; None while this boot makes them."""
    now, before = _of(answers), None if reference is None else _of(reference)
    reasons = {
        TEMPLATE: "" if kit.chat_template else "the checkpoint has no chat template",
        TOOL: "" if kit.tool_parser else "the launch names no tool-call parser",
        REASONING: "" if kit.reasoning_parser else "the launch names no reasoning parser",
        LOGPROBS: "" if kit.forced else "no text is given",
    }
    out = [_logprobs(now, before) if not reasons[LOGPROBS] else _absent(LOGPROBS, reasons[LOGPROBS])]
    checks: tuple[tuple[str, Check], ...] = (
        (TEMPLATE, _template),
        (TOOL, _tool),
        (REASONING, _reasoning),
        (SCHEMA, _schema),
    )
    for name, check in checks:
        why = reasons.get(name, "")
        out.append(_absent(name, why) if why else _compared(name, check, now, before))
    return tuple(out)


Check = Callable[[Answer, Answer | None], tuple[bool, str]]
"""(whether it is right, what was seen)"""


def _compared(name: str, check: Check, now: Mapping[str, Answer], before: Mapping[str, Answer] | None) -> Canary:
    """A control that fails says nothing about a candidate: then it is not applicable."""
    mine, theirs = now.get(name), None if before is None else before.get(name)
    if before is not None:
        if theirs is None:
            return _absent(name, "the reference was not asked")
        good, seen = check(theirs, None)
        if not good:
            return _absent(name, f"the reference does not do it either: {seen}")
    good, seen = (False, "it was not asked") if mine is None else check(mine, theirs)
    state: CanaryState = "passed" if good else ("not applicable" if before is None else "failed")
    return Canary(name=name, state=state, why=seen[:200])


def _absent(name: str, why: str) -> Canary:
    return Canary(name=name, state="not applicable", why=why[:200])


def _of(answers: Sequence[Answer]) -> dict[str, Answer]:
    return {a.key.removeprefix(PREFIX): a for a in answers if a.key.startswith(PREFIX)}


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _chat(name: str, messages: list[dict[str, str]], most: int, **more: Any) -> Question:
    body = {"messages": messages, "temperature": 0.0, "max_tokens": most, "stream": False, **more}
    return Question(key=PREFIX + name, path=CHAT, body=body, prompt=messages[-1]["content"], max_tokens=most)


def _forced(text: str) -> dict[str, Any]:
    sampling = {"temperature": 0.0, "max_new_tokens": 1}
    return {"text": text, "sampling_params": sampling, "return_logprob": True, "logprob_start_len": 0}


# ---- log-probabilities
def forced(answer: Answer) -> tuple[tuple[float, int], ...]:
    """(log-probability, token) of each token of a given text; the first one has nothing before it and is left out."""
    rows = (answer.value.get("meta_info") or {}).get("input_token_logprobs") or ()
    return tuple((_number(row[0]), int(row[1])) for row in rows[1:])


def _number(value: Any) -> float:
    """A token that can't be said has no finite logarithm."""
    good = isinstance(value, (int, float)) and not isnan(value)
    return max(float(value), LEAST_LOGPROB) if good else LEAST_LOGPROB


def _logprobs(now: Mapping[str, Answer], before: Mapping[str, Answer] | None) -> Canary:
    mine = {k: a for k, a in now.items() if k.startswith(LOGPROBS)}
    refused = next((a.error for a in mine.values() if a.error), "")
    if refused:
        return _absent(LOGPROBS, f"this configuration gives none: {refused}")
    rows = {k: forced(a) for k, a in mine.items()}
    tokens = sum(map(len, rows.values()))
    if not tokens:
        return _absent(LOGPROBS, "the server's answer holds none")
    if before is None:
        mean = sum(lp for found in rows.values() for lp, _ in found) / tokens
        return Canary(name=LOGPROBS, state="passed", why=f"mean {mean:.3f} over {tokens} tokens, the reference to come")
    theirs = {k: forced(before[k]) for k in rows if k in before}
    if not any(theirs.values()):
        return _absent(LOGPROBS, "the reference gives none")
    lost, apart = 0.0, 0.0
    for key, known in theirs.items():
        for one, other in zip_longest(rows[key], known):
            if one is None or other is None or one[1] != other[1]:
                return Canary(name=LOGPROBS, state="failed", why="the same text becomes other tokens")
            lost += other[0] - one[0]
            apart += abs(other[0] - one[0])
    count = sum(map(len, theirs.values()))
    why = f"{-lost / count:+.3f} nats a token against the reference, {apart / count:.3f} apart, {count} tokens"
    return Canary(name=LOGPROBS, state="passed" if lost / count <= DROP_NATS else "failed", why=why)


# ---- chat
def message(answer: Answer) -> Mapping[str, Any]:
    """The message of a chat answer; empty where there is none."""
    choices = answer.value.get("choices") or ()
    return (choices[0].get("message") or {}) if choices else {}


def _template(mine: Answer, theirs: Answer | None) -> tuple[bool, str]:
    """The same conversation becomes the same number of tokens: same template, same roles."""
    tokens = (mine.value.get("usage") or {}).get("prompt_tokens")
    if mine.error or not tokens:
        return False, mine.error or "the server does not tell its prompt's tokens"
    known = None if theirs is None else (theirs.value.get("usage") or {}).get("prompt_tokens")
    if known is not None and known != tokens:
        return False, f"four messages become {tokens} tokens, the reference's {known}"
    return True, f"four messages become {tokens} tokens"


def _tool(mine: Answer, _: Answer | None) -> tuple[bool, str]:
    if mine.error:
        return False, mine.error
    calls = message(mine).get("tool_calls") or ()
    if not calls:
        return False, f"no call was parsed: {str(message(mine).get('content'))[:80]!r}"
    made = calls[0].get("function") or {}
    try:
        given = json.loads(made.get("arguments") or "")
    except ValueError:
        return False, f"its arguments are no JSON: {str(made.get('arguments'))[:80]!r}"
    good = made.get("name") == "get_weather" and isinstance(given, dict) and CITY in str(given.get("city"))
    return good, f"{made.get('name')}({json.dumps(given)[:80]})"


def _reasoning(mine: Answer, _: Answer | None) -> tuple[bool, str]:
    if mine.error:
        return False, mine.error
    thought, said = (str(message(mine).get(k) or "") for k in ("reasoning_content", "content"))
    if not thought.strip():
        return False, f"no reasoning was split off: {said[:80]!r}"
    if not said.strip() or "think>" in said:
        return False, f"the answer after the reasoning is {said[:80]!r}"
    return True, f"{len(thought)} characters of reasoning, then {said[:40]!r}"


def _schema(mine: Answer, _: Answer | None) -> tuple[bool, str]:
    if mine.error:
        return False, mine.error
    text = str(message(mine).get("content") or "")
    try:
        value = json.loads(text)
    except ValueError:
        return False, f"no JSON: {text[:80]!r}"
    good = isinstance(value, dict) and value.keys() == {"colour", "round"}
    good = good and value["colour"] in COLOURS and isinstance(value["round"], bool)
    return good, text[:80]
