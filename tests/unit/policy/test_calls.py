"""Tool calls: malformed, unknown and odd ones are told why; sound ones become typed actions."""

import json

import pytest
from day0.agent.policy.actions import Finish, ReadLog, TryCandidate
from day0.agent.policy.calls import TOOLS, ReadHelp, parse, schema
from day0.runs.errors import Refused
from hypothesis import given
from hypothesis import strategies as st

GOOD = {"parent": "r0.1", "flags": {"dtype": "float32"}, "hypothesis": "h", "expected_gain": 0.1}


def test_sound_calls_become_actions():
    action = parse("try_candidate", json.dumps(GOOD))
    assert isinstance(action, TryCandidate) and dict(action.flags) == {"dtype": "float32"}
    assert isinstance(parse("read_log", '{"attempt": "r0.1"}'), ReadLog)
    assert isinstance(parse("read_help", '{"word": "stream"}'), ReadHelp)
    assert isinstance(parse("finish", '{"reason": "done"}'), Finish)


def test_flag_names_are_tidied():
    action = parse("try_candidate", json.dumps({**GOOD, "flags": {"--max_running_requests": 8, "dtype": None}}))
    assert dict(action.flags) == {"max-running-requests": 8, "dtype": None}


def test_the_kind_comes_from_the_tool_not_from_the_arguments():
    assert isinstance(parse("finish", '{"reason": "x", "kind": "try_candidate"}'), Finish)


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("launch", "{}", "no tool 'launch'"),
        ("try_candidate", '{"parent": ', "not JSON"),
        ("try_candidate", "[1]", "JSON object"),
        ("try_candidate", json.dumps({**GOOD, "hypothesis": ""}), "hypothesis"),
        ("try_candidate", json.dumps({**GOOD, "expected_gain": 99}), "expected_gain"),
        ("try_candidate", json.dumps({**GOOD, "measured_gain": 0.5}), "measured_gain"),
        ("try_candidate", json.dumps({**GOOD, "flags": {"a": [1]}}), "flags"),
        ("try_candidate", '{"parent": "r0.1", "hypothesis": "h", "expected_gain": NaN}', "not a JSON number"),
        ("read_log", '{"attempt": "r0.1", "lines": 100000}', "lines"),
        ("finish", "{}", "reason"),
        ("try_candidate", "[" * 5000, "JSON"),
        ("finish", json.dumps({"reason": "x" * 90000}), "limit"),
    ],
)
def test_s55_what_is_wrong_is_said(name, arguments, text):
    with pytest.raises(Refused, match=text):
        parse(name, arguments)


@given(st.sampled_from([*TOOLS, "other"]), st.one_of(st.text(max_size=60), st.from_type(dict).map(repr)))
def test_s55_no_call_breaks_anything(name, arguments):
    try:
        parse(name, arguments)
    except Refused as refused:
        assert refused.reason


def test_schemas_are_what_the_tools_api_wants():
    for name in TOOLS:
        one = schema(name)
        assert one["type"] == "function" and one["function"]["name"] == name and one["function"]["description"]
        parameters = one["function"]["parameters"]
        assert parameters["type"] == "object" and "kind" not in parameters["properties"]
        assert parameters["additionalProperties"] is False
        json.dumps(one)
