"""What the load generator needs of a running server, and the questions that it puts to one."""

from __future__ import annotations

from typing import Any, Protocol

import httpx
from day0.runs.engine_facts import BootFacts
from day0.runs.values import Frozen, Map
from day0.sandboxes.base import Process
from day0.tools.engines.base import Counters, Engine
from pydantic import Field


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


def addressed(facts: BootFacts) -> dict[str, object]:
    """What a load generator's plan says of separate servers behind a router: priming goes to each by its address."""
    return {"workers": list(facts.workers)} if facts.workers else {}
