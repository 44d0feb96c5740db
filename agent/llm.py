"""Any OpenAI-compatible endpoint behind the LLM port. The only user of the OpenAI client.

Bounded retries with back-off on 429, 5xx, timeouts and broken connections; a circuit breaker, so that an endpoint
that is away costs one refusal instead of minutes in each round; a plain-JSON form for servers without tools. What is
kept of a call has the key and everything that looks like a secret removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from day0.agent.policy.base import Asked, LLMDown, Told, Usage
from day0.agent.policy.calls import schema
from day0.agent.policy.untrusted import HIDDEN, cut, redact
from day0.agent.toolless import calls_in, explain
from day0.runs.errors import UserError

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

RETRIES = 4
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 30.0
BREAKER_FAILURES = 2
BREAKER_S = 300.0
KEPT_CHARS = 40_000
RENAMED = "max_completion_tokens"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# As the tokens of what a server did not count; about four characters make one.
CHARS_A_TOKEN = 4
# A body that names one of these says that the server does not know the tools API.
NO_TOOLS = ("tool", "function", "unrecognized", "extra inputs", "not supported")


@dataclass(frozen=True)
class Endpoint:
    """Where the LLM is and what it costs. Prices in USD per million tokens; 0 = unknown."""

    base_url: str
    model: str
    api_key: str = field(default="", repr=False)
    timeout_s: float = 120.0
    usd_in: float = 0.0
    usd_out: float = 0.0
    usd_cap: float | None = None
    calls_cap: int | None = None
    tokens_cap: int | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Endpoint | None:
        """From DAY0_LLM_BASE_URL, DAY0_LLM_MODEL, DAY0_LLM_API_KEY; None without an URL. Raises `UserError`."""
        url, model = environment.get("DAY0_LLM_BASE_URL", "").strip(), environment.get("DAY0_LLM_MODEL", "").strip()
        if not url:
            return None
        if not url.startswith(("http://", "https://")):
            raise UserError("DAY0_LLM_BASE_URL must be an http:// or https:// address, such as https://host/v1")
        if not model:
            raise UserError("DAY0_LLM_BASE_URL is set but DAY0_LLM_MODEL is not: name the model that shall plan")
        return cls(url, model, environment.get("DAY0_LLM_API_KEY", "").strip())


def spent_of(calls: Iterable[Mapping[str, Any]]) -> Usage:
    """What the stored calls of a run (`OpenAILLM`'s records) have used up of its caps."""
    used = [Usage.model_validate(call["usage"]) for call in calls if "usage" in call]
    return Usage(
        calls=sum(u.calls for u in used),
        prompt_tokens=sum(u.prompt_tokens for u in used),
        completion_tokens=sum(u.completion_tokens for u in used),
        usd=sum(u.usd for u in used),
    )


class OpenAILLM:
    """One call in, one answer with usage out.

    `sleep` and `clock` are wall time (seconds) and injected; `keep` gets a record of each call for the ledger.
    `spent` is what earlier processes of the run used up of the caps.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        keep: Callable[[dict[str, Any]], None] | None = None,
        spent: Usage | None = None,
    ) -> None:
        self.endpoint, self.spent = endpoint, spent or Usage()
        self._sleep, self._clock, self._keep = sleep, clock, keep
        self._tools = True
        self._limit = "max_tokens"
        self._failures, self._open_until = 0, 0.0
        self._client: Any = None

    def ask(self, asked: Asked) -> Told:
        """One answer. Raises `LLMDown` when the endpoint stays away, refuses us, or a cap is reached."""
        self._affordable()
        if self._clock() < self._open_until:
            raise LLMDown("the endpoint failed a moment ago; it is left alone for a while")
        began = self._clock()
        try:
            told = self._retried(asked)
        except LLMDown as down:
            self._failures += 1
            if self._failures >= BREAKER_FAILURES:
                self._open_until = self._clock() + BREAKER_S
            self._record(asked, None, str(down), self._clock() - began)
            raise
        self._failures, self._open_until = 0, 0.0
        self._record(asked, told, "", self._clock() - began)
        return told

    def close(self) -> None:
        """Closes the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _affordable(self) -> None:
        cap, calls = self.endpoint.usd_cap, self.endpoint.calls_cap
        if cap is not None and self.spent.usd >= cap:
            raise LLMDown(f"the LLM's budget of {cap:g} USD is spent")
        if calls is not None and self.spent.calls >= calls:
            raise LLMDown(f"the {calls} LLM calls of this run are used up")
        tokens, used = self.endpoint.tokens_cap, self.spent.prompt_tokens + self.spent.completion_tokens
        if tokens is not None and used >= tokens:
            raise LLMDown(f"the {tokens} LLM tokens of this run are used up")

    def _retried(self, asked: Asked) -> Told:
        import openai

        why = ""
        for number in range(RETRIES):
            try:
                return self._once(asked)
            except openai.APIStatusError as error:
                why = self._hidden(f"HTTP {error.status_code}: {cut(error.message, 300)}")
                if error.status_code not in {408, 409, 425, 429} and error.status_code < 500:
                    raise LLMDown(why) from None
                asks = _retry_after(error.response.headers.get("retry-after"))
            except openai.APITimeoutError:
                why, asks = f"no answer within {self.endpoint.timeout_s:g} s", None
            except openai.APIConnectionError as error:
                why, asks = self._hidden(f"no connection: {error.__cause__ or error}"), None
            except (openai.APIError, ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
                # a proxy's page instead of JSON, or JSON that is no completion
                why, asks = self._hidden(f"no chat completion came back: {cut(str(error), 200)}"), None
            if number + 1 < RETRIES:
                wait = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0**number)
                self._sleep(min(LONGEST_WAIT_S, max(wait, asks or 0.0)))
        raise LLMDown(f"{why} ({RETRIES} tries)")

    def _once(self, asked: Asked) -> Told:
        import openai

        try:
            return self._either(asked)
        except openai.BadRequestError as error:
            # reasoning models of some providers count what they think, and name the limit after that
            if self._limit == RENAMED or RENAMED not in str(error.body or error.message):
                raise
            self._limit = RENAMED
            return self._either(asked)

    def _either(self, asked: Asked) -> Told:
        """With the tools API where the server knows it, else in plain JSON."""
        import openai

        if self._tools and asked.tools:
            try:
                return self._told(asked, self._send(asked, tools=True))
            except (openai.BadRequestError, openai.UnprocessableEntityError, openai.NotFoundError) as error:
                said = str(error.body or error.message)
                if RENAMED in said or not any(word in said.lower() for word in NO_TOOLS):
                    raise
                self._tools = False
            except openai.InternalServerError as error:
                if error.status_code != 501:
                    raise
                self._tools = False
        return self._told(asked, self._send(asked, tools=False))

    def _send(self, asked: Asked, *, tools: bool) -> ChatCompletion:
        messages = [{"role": m.role, "content": self._hidden(m.content)} for m in asked.messages]
        more: dict[str, Any] = {self._limit: asked.max_tokens}
        if tools:
            more |= {"tools": [schema(name) for name in asked.tools], "tool_choice": "auto"}
        elif asked.tools:
            messages.append({"role": "user", "content": explain([schema(name) for name in asked.tools])})
        answer: ChatCompletion = self._opened().chat.completions.create(
            model=self.endpoint.model, messages=messages, **more
        )
        return answer

    def _opened(self) -> Any:
        if self._client is None:
            import openai

            # a proxy is right for an endpoint elsewhere and wrong for one on this machine
            near = urlsplit(self.endpoint.base_url).hostname in LOOPBACK
            self._client = openai.OpenAI(
                base_url=self.endpoint.base_url,
                api_key=self.endpoint.api_key or "none",
                max_retries=0,
                timeout=self.endpoint.timeout_s,
                http_client=openai.DefaultHttpxClient(trust_env=not near, follow_redirects=False),
            )
        return self._client

    def _told(self, asked: Asked, answer: ChatCompletion) -> Told:
        choice, cut_off = answer.choices[0].message, answer.choices[0].finish_reason == "length"
        text = choice.content or ""
        calls = tuple(
            (call.function.name, call.function.arguments or "{}")
            for call in choice.tool_calls or ()
            if call.type == "function"
        )
        usage = self._usage(asked, answer)
        self.spent = Usage(
            calls=self.spent.calls + 1,
            prompt_tokens=self.spent.prompt_tokens + usage.prompt_tokens,
            completion_tokens=self.spent.completion_tokens + usage.completion_tokens,
            usd=self.spent.usd + usage.usd,
        )
        # servers that ignore `tools` answer in prose with the JSON inside
        return Told(
            text=text,
            calls=calls or calls_in(text),
            usage=usage,
            model=answer.model or self.endpoint.model,
            cut_off=cut_off,
        )

    def _usage(self, asked: Asked, answer: ChatCompletion) -> Usage:
        """As the server counted; where it did not, by the characters, so that a cap holds all the same."""
        used = answer.usage
        sent, got = (used.prompt_tokens or 0, used.completion_tokens or 0) if used else (0, 0)
        if used is None:
            sent = sum(len(m.content) for m in asked.messages) // CHARS_A_TOKEN
            got = len(str(answer.choices[0].message)) // CHARS_A_TOKEN
        usd = (sent * self.endpoint.usd_in + got * self.endpoint.usd_out) / 1e6
        return Usage(calls=1, prompt_tokens=sent, completion_tokens=got, usd=usd)

    def _hidden(self, text: str) -> str:
        if len(self.endpoint.api_key) >= 4:
            text = text.replace(self.endpoint.api_key, HIDDEN)
        return redact(text)

    def _record(self, asked: Asked, told: Told | None, error: str, seconds: float) -> None:
        if self._keep is None:
            return
        self._keep(
            {
                "purpose": asked.purpose,
                "prompt": asked.prompt,
                "model": told.model if told else self.endpoint.model,
                "messages": [[m.role, cut(self._hidden(m.content), KEPT_CHARS)] for m in asked.messages],
                "text": cut(self._hidden(told.text), KEPT_CHARS) if told else "",
                "calls": [[name, cut(self._hidden(text), KEPT_CHARS)] for name, text in told.calls] if told else [],
                "usage": (told.usage if told else Usage()).model_dump(),
                "error": error,
                "wall_s": round(seconds, 3),
            }
        )


def _retry_after(header: str | None) -> float | None:
    """Seconds that a Retry-After header asks for; None where it names a date or nothing."""
    try:
        return max(0.0, float(header)) if header else None
    except ValueError:
        return None
