"""What the load generator needs of a running server, and the questions that it puts to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import httpx
from day0.runs.engine_facts import BootFacts
from day0.runs.values import Frozen, Map
from day0.sandboxes.base import Process
from day0.tools.engines.base import Counters, Engine
from pydantic import Field

ASK_S, ANSWER_S, TOKEN_S = 300.0, 120.0, 0.25
"""What all questions, one, and a token of one may take: a model that thinks first writes thousands of tokens."""


class Served(Protocol):
    """What the harness needs of a running server (`tools/serve.py`)."""

    @property
    def port(self) -> int: ...
    @property
    def http(self) -> httpx.Client: ...
    @property
    def facts(self) -> BootFacts: ...
    @property
    def process(self) -> Process: ...
    @property
    def engine(self) -> Engine: ...
    @property
    def attention_s(self) -> float:
        """The longest pause between two calls of `alive`."""
        ...

    def alive(self, seen: Counters | None = None) -> None:
        """Raises `CandidateFailed` when the server crashed or stalled; `seen` are its counters as just read."""
        ...


class Question(Frozen):
    """One user message for the chat endpoint; with a `body`, any call of the server's API, whose answer comes whole."""

    key: str
    prompt: str
    max_tokens: int = 32
    path: str = "/v1/chat/completions"
    body: Map[Any] = Field(default_factory=dict, description="the whole request but for the model's name")


class Answer(Frozen):
    """What came of a question; `error` is empty where an answer came."""

    key: str
    text: str = ""
    finish: str = ""
    tokens: int | None = None
    error: str = ""
    value: Map[Any] = Field(default_factory=dict, description="the whole answer of a question with a body")


def patience_s(questions: Sequence[Question], concurrency: int, deadline_s: float | None = None) -> tuple[float, float]:
    """How long one of these questions may take, by the longest answer that is allowed, and all of them together.

    The latter is `deadline_s` where it is given.
    """
    each = max(ANSWER_S, TOKEN_S * max((q.max_tokens for q in questions), default=0))
    return each, deadline_s or max(ASK_S, each * -(-len(questions) // concurrency))


def addressed(facts: BootFacts) -> dict[str, object]:
    """What a load generator's plan says of separate servers behind a router: priming goes to each by its address."""
    return {"workers": list(facts.workers)} if facts.workers else {}
