"""What each canary sees, and what it says of that which it could not see."""

from __future__ import annotations

import json

import pytest
from day0.tools import probes
from day0.tools.probes import LOGPROBS, PREFIX, REASONING, SCHEMA, TEMPLATE, TOOL, Kit, judge
from day0.tools.served import Answer

KIT = Kit(forced=("17 + 4 = 21",), tool_parser="glm47", reasoning_parser="glm45")


def said(name, **message):
    value = {"choices": [{"message": message}], "usage": {"prompt_tokens": 31}}
    return Answer(key=PREFIX + name, value=value)


def call(city="Paris", name="get_weather", arguments=None):
    made = {"name": name, "arguments": json.dumps({"city": city}) if arguments is None else arguments}
    return said(TOOL, content=None, tool_calls=[{"function": made}])


def logprobs(*values, tokens=None):
    ids = tokens or range(len(values) + 1)
    rows = [[v, i, None] for v, i in zip((None, *values), ids, strict=True)]
    return Answer(key=f"{PREFIX}{LOGPROBS}:0", value={"meta_info": {"input_token_logprobs": rows}})


def everything(**changed):
    good = {
        LOGPROBS: logprobs(-0.1, -0.2, -0.3),
        TEMPLATE: said(TEMPLATE, content="Blue"),
        TOOL: call(),
        REASONING: said(REASONING, reasoning_content="17 and 25 are 42", content="42"),
        SCHEMA: said(SCHEMA, content='{"colour": "red", "round": true}'),
    }
    return tuple({**good, **changed}.values())


def states(kit, answers, reference=None):
    return {c.name: c.state for c in judge(kit, answers, reference)}


def test_a_sound_server_passes_all_with_and_without_a_reference():
    assert [q.key for q in probes.questions(KIT)] == [a.key for a in everything()]
    for reference in (None, everything()):
        assert set(states(KIT, everything(), reference).values()) == {"passed"}


@pytest.mark.parametrize(
    ("name", "answer", "why"),
    [
        (LOGPROBS, logprobs(-0.1, -6.2, -0.3), "-2.000 nats a token"),
        (LOGPROBS, logprobs(-0.1, float("nan"), -0.3), "nats a token"),
        (LOGPROBS, logprobs(-0.1, -0.2, -0.3, tokens=[0, 1, 9, 3]), "other tokens"),
        (TOOL, said(TOOL, content="<tool_call>get_weather"), "no call was parsed"),
        (TOOL, call(arguments="{city: Paris"), "no JSON"),
        (TOOL, call(city="Rome"), "Rome"),
        (TOOL, Answer(key=PREFIX + TOOL, error="HTTP 500: parser"), "HTTP 500"),
        (REASONING, said(REASONING, content="17 and 25 ... </think> 42"), "no reasoning was split off"),
        (REASONING, said(REASONING, reasoning_content="hm", content="</think>42"), "the answer after the reasoning"),
        (SCHEMA, said(SCHEMA, content='{"colour": "red"'), "no JSON"),
        (SCHEMA, said(SCHEMA, content='{"colour": "mauve", "round": true}'), "mauve"),
        (TEMPLATE, Answer(key=PREFIX + TEMPLATE, value={"usage": {"prompt_tokens": 30}}), "30 tokens, the reference's"),
    ],
)
def test_s34_what_breaks_fails_its_canary_and_no_other(name, answer, why):
    found = {c.name: c for c in judge(KIT, everything(**{name: answer}), everything())}
    assert found[name].state == "failed" and why in found[name].why
    assert all(c.state == "passed" for other, c in found.items() if other != name)


@pytest.mark.parametrize("name", [TOOL, REASONING, SCHEMA, TEMPLATE])
def test_s35_what_the_reference_does_not_do_says_nothing_about_a_candidate(name):
    bad = Answer(key=PREFIX + name, error="HTTP 400: no")
    (found,) = (c for c in judge(KIT, everything(**{name: bad}), everything(**{name: bad})) if c.name == name)
    assert found.state == "not applicable" and "the reference does not do it either: HTTP 400" in found.why
    assert states(KIT, everything(**{name: bad}))[name] == "not applicable", "the reference in the making"


def test_what_cannot_be_asked_is_said_and_never_passed():
    bare = Kit(chat_template=False)
    asked = probes.questions(bare)
    assert [q.key for q in asked] == [PREFIX + SCHEMA]
    found = {c.name: c for c in judge(bare, everything(), everything())}
    told = {TOOL: "no tool-call parser", REASONING: "no reasoning parser", TEMPLATE: "no chat template"}
    assert all(found[name].state == "not applicable" and why in found[name].why for name, why in told.items())
    assert found[LOGPROBS].state == "not applicable"


def test_a_configuration_that_gives_no_log_probabilities_is_told_so():
    refused = Answer(key=f"{PREFIX}{LOGPROBS}:0", error="HTTP 400: not with this speculation")
    (found,) = (c for c in judge(KIT, everything(**{LOGPROBS: refused}), everything()) if c.name == LOGPROBS)
    assert found.state == "not applicable" and "not with this speculation" in found.why


def test_a_small_difference_of_other_kernels_passes():
    near = logprobs(-0.14, -0.24, -0.34)
    assert states(KIT, everything(**{LOGPROBS: near}), everything())[LOGPROBS] == "passed"
