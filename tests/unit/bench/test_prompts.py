"""Prompts of exact token counts, with tokenizers that merge and that don't. The program is loaded by its path."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import day0.tools.harness as programs
import pytest
from day0.tools.text import prose
from hypothesis import given, settings
from hypothesis import strategies as st

_spec = importlib.util.spec_from_file_location("harness_prompts", Path(programs.__path__[0]) / "prompts.py")
assert _spec and _spec.loader
prompts = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(prompts)
TEXT = prose()


class Characters:
    chat_template = None

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": [ord(c) for c in text]}


class Words:
    """Merges up to four letters, adds a BOS, has a template."""

    chat_template = "yes"
    bos_token = "<s>"

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": [0, *(hash(p) for p in re.findall(r" ?[A-Za-z]{1,4}|.", text))]}

    def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> str:
        return "<s>User: " + messages[0]["content"] + "\nAssistant:"


@given(start=st.integers(0, 10**7), tokens=st.integers(2, 3000), shared=st.floats(0, 0.9))
@settings(max_examples=60, deadline=None)
def test_one_token_a_character_is_exact_at_once(start: int, tokens: int, shared: float) -> None:
    cutter = prompts.Cutter(Characters(), TEXT, chat=True)
    head = cutter.head(17, int(tokens * shared))
    text, got = cutter.exact(head, start, tokens)
    assert got == tokens == len(text) and text.startswith(head)


@given(start=st.integers(0, 10**6), tokens=st.integers(40, 2000))
@settings(max_examples=40, deadline=None)
def test_merges_and_a_template_are_met_as_the_server_counts(start: int, tokens: int) -> None:
    words = Words()
    cutter = prompts.Cutter(words, TEXT, chat=True)
    text, got = cutter.exact(cutter.head(5, tokens // 2), start, tokens)
    assert got == len(words(text, True)["input_ids"])
    assert abs(got - tokens) <= 1
    assert text.startswith("User: ") and text.endswith("\nAssistant:")  # no second BOS


def test_prompts_share_exactly_their_prefix() -> None:
    cutter = prompts.Cutter(Characters(), TEXT, chat=True)
    head = cutter.head(100, 192)
    one, two = (cutter.exact(head, place, 256)[0] for place in (5_000, 9_000))
    assert one[:192] == two[:192] and one[192:] != two[192:]


@pytest.mark.parametrize("start", [0, len(TEXT) - 5, len(TEXT) * 3 + 1])
def test_the_corpus_is_a_ring(start: int) -> None:
    cutter = prompts.Cutter(Characters(), TEXT, chat=False)
    assert len(cutter.span(start, 2 * len(TEXT) + 3)) == 2 * len(TEXT) + 3


class Marked(Characters):
    """An end-of-text token and one that the checkpoint's files name; each is a single token."""

    eos_token = "</s>"

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": re.findall(r"</s>|<end>|.", text, re.DOTALL)}

    def convert_ids_to_tokens(self, token: int) -> str:
        return {2: "</s>", 9: "<end>"}[token]


def test_tokens_that_an_answer_was_forced_to_write_past_its_end_are_counted(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [2, 9]}')
    (tmp_path / "config.json").write_text('{"eos_token_id": 2}')
    known = prompts.ends(Marked(), str(tmp_path))
    assert known == ("</s>", "<end>")
    cutter = prompts.Cutter(Marked(), TEXT, True, known)
    assert cutter.forced("abc</s>defg<end>", 9) == 5, "the end itself belongs to the answer"
    assert cutter.forced("abc<end>de", 6) == 2
    assert cutter.forced("abcdef", 6) == 0
    assert prompts.Cutter(Marked(), TEXT, True).forced("abc</s>d", 5) is None
