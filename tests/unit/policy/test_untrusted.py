"""Text of strangers stays data: no escapes, no fence broken, no secret passed on."""

import pytest
from day0.agent.policy.untrusted import clean, cut, fence, line, redact
from hypothesis import given
from hypothesis import strategies as st

NASTY = "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J \x1bPq#0\x1b\\ bell\x07 back\x08 \u202eevil\u200b \ufeff"


def test_s67_terminal_escapes_and_invisible_marks_are_stripped():
    assert clean(NASTY).split() == ["red", "bell", "back", "evil"]
    assert clean("a\r\nb\rc\td") == "a\nb\nc\td"


@given(st.text())
def test_nothing_a_terminal_would_obey_is_left(text):
    out = clean(text)
    assert not any((ord(c) < 32 and c not in "\t\n") or 0x7F <= ord(c) <= 0x9F for c in out)
    assert clean(out) == out


@given(st.text(alphabet="ab<>`\n \x1b[m", max_size=300), st.integers(20, 200))
def test_s57_data_cannot_close_its_own_fence(text, limit):
    body = fence(text, "log", limit).split("\n")
    assert body[0] == "<<<data log" and body[-1] == ">>>"
    assert not any("<<<" in row or ">>>" in row or "```" in row for row in body[1:-1])


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcdefgh12345678",
        "hf_abcdefghijklmnop",
        "ghp_abcdefghijklmnopqrstuv",
        "AKIAABCDEFGHIJKLMNOP",
        "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM",
    ],
)
def test_s59_secrets_are_known_by_their_form(secret):
    assert secret not in redact(f"used {secret} here") and "here" in redact(f"used {secret} here")


@pytest.mark.parametrize(
    "text",
    [
        "API_KEY=swordfish99",
        "api-key: swordfish99",
        '"password": "swordfish99"',
        "Authorization: Bearer swordfish99",
        "HF_TOKEN = swordfish99",
        "https://me:swordfish99@host/x",
    ],
)
def test_s59_secrets_are_known_by_the_name_in_front(text):
    assert "swordfish99" not in redact(text)


def test_a_log_about_tokens_stays_readable():
    log = "gen throughput (token/s): 120.5, max_total_num_tokens=8192, #new-token: 384, token usage: 0.31"
    assert redact(log) == log


@given(st.text(max_size=500), st.integers(60, 300))
def test_cut_keeps_head_and_tail_within_the_limit(text, limit):
    out = cut(text, limit)
    assert len(out) <= limit
    assert out == text or "left out" in out


def test_a_line_is_one_line():
    assert line("a\nb\x1b[1m <<<data") == "a b «»data"
    assert line("abcdef", 4) == "abc…"
    assert "\n" not in line("a\nb\nc")
