"""What the load generator needs of a running server, and the questions that it puts to one."""

from __future__ import annotations

from typing import Protocol

import httpx
from day0.runs.engine_facts import BootFacts
from day0.runs.values import Frozen
from day0.sandboxes.base import Process
from day0.tools.engines.base import Counters, Engine


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
    """One user message for the chat endpoint."""

    key: str
    prompt: str
    max_tokens: int = 32


class Answer(Frozen):
    """What came of a question; `error` is empty where an answer came."""

    key: str
    text: str = ""
    finish: str = ""
    tokens: int | None = None
    error: str = ""
