"""The vendor's own endpoint of the model, asked the same questions: the reference that comes before all others.

The outside world, in wall time and one request at a time; never a node. Its key is sent to this address alone and
stands in no fact. What such an endpoint can't tell (log-probabilities of a given text, how it wraps a conversation) is
not asked of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx
from day0.tools import probes
from day0.tools.served import Answer, Question

TIMEOUT_S = 300.0
TRIES = 2
NOT_ASKED = (f"{probes.PREFIX}{probes.LOGPROBS}", f"{probes.PREFIX}{probes.TEMPLATE}")


@dataclass(frozen=True)
class Vendor:
    """An OpenAI-compatible endpoint (`base_url` ends before `/chat/completions`)."""

    base_url: str
    model: str
    key: str = field(default="", repr=False)
    transport: httpx.BaseTransport | None = field(default=None, repr=False)

    @property
    def words(self) -> str:
        """What it is called in facts: its host, no path and no user."""
        return f"the vendor's endpoint at {urlsplit(self.base_url).hostname}"

    def ask(self, questions: Sequence[Question]) -> tuple[Answer, ...]:
        """Answers of what it can be asked; one that failed twice has its `error`."""
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        with httpx.Client(timeout=TIMEOUT_S, headers=headers, transport=self.transport) as http:
            return tuple(self._one(http, q) for q in questions if not q.key.startswith(NOT_ASKED))

    def _one(self, http: httpx.Client, question: Question) -> Answer:
        plain = {
            "messages": [{"role": "user", "content": question.prompt}],
            "temperature": 0.0,
            "max_tokens": question.max_tokens,
            "stream": False,
        }
        body = {**(question.body or plain), "model": self.model}
        error = ""
        for _ in range(TRIES):
            try:
                reply = http.post(self.base_url.rstrip("/") + "/chat/completions", json=body)
                reply.raise_for_status()
                return _read(question, reply.json())
            except (httpx.HTTPError, ValueError, KeyError, IndexError, TypeError) as failed:
                status = failed.response.status_code if isinstance(failed, httpx.HTTPStatusError) else ""
                error = f"{type(failed).__name__} {status}".strip()
        return Answer(key=question.key, error=error)


def _read(question: Question, value: dict[str, Any]) -> Answer:
    choice = value["choices"][0]
    if question.body:
        return Answer(key=question.key, value={"choices": [choice], "usage": value.get("usage") or {}})
    return Answer(key=question.key, text=choice["message"].get("content") or "", finish=str(choice["finish_reason"]))
