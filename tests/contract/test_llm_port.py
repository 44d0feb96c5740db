"""The LLM port: one body over the shipped fake and the client of real endpoints."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from day0.agent.llm import Endpoint, OpenAILLM
from day0.agent.policy.base import LLM, Asked, LLMDown, Message, Told, Usage
from day0.agent.scripted_llm import ScriptedLLM, absent

ASKED = Asked(messages=(Message(role="user", content="plan"),), tools=("finish",))
ANSWERS = (Told(text="one"), Told(calls=(("finish", '{"reason": "two"}'), ("other", "not json"))))


def scripted(answers: tuple[Told, ...] | None) -> Iterator[LLM]:
    yield absent() if answers is None else ScriptedLLM(a.model_copy(update={"usage": Usage(calls=1)}) for a in answers)


def over_http(answers: tuple[Told, ...] | None) -> Iterator[LLM]:
    left = list(answers or ())

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            body: dict[str, object] = {"error": {"message": "away"}}
            if left:
                told = left.pop(0)
                calls = [
                    {"id": "c", "type": "function", "function": {"name": n, "arguments": a}} for n, a in told.calls
                ]
                message = {"role": "assistant", "content": told.text, "tool_calls": calls or None}
                choice = {"index": 0, "finish_reason": "stop", "message": message}
                body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
            data = json.dumps(body).encode()
            self.send_response(200 if "choices" in body else 503)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    llm = OpenAILLM(Endpoint(f"http://127.0.0.1:{server.server_port}/v1", "m"), sleep=lambda _: None)
    yield llm
    llm.close()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(params=[scripted, over_http], ids=["scripted", "http"])
def make(request: pytest.FixtureRequest) -> Iterator[Callable[[tuple[Told, ...] | None], LLM]]:
    opened: list[Iterator[LLM]] = []

    def one(answers: tuple[Told, ...] | None) -> LLM:
        opened.append(request.param(answers))
        return next(opened[-1])

    yield one
    for maker in opened:
        assert next(maker, None) is None


def test_answers_come_in_order_with_raw_calls_and_usage(make):
    llm = make(ANSWERS)
    first, second = llm.ask(ASKED), llm.ask(ASKED)
    assert (first.text, first.calls) == ("one", ())
    assert second.calls == ANSWERS[1].calls
    assert first.usage.calls == second.usage.calls == 1


def test_an_endpoint_that_is_away_raises_llm_down_each_time(make):
    llm = make(None)
    for _ in range(4):
        with pytest.raises(LLMDown):
            llm.ask(ASKED)


def test_one_that_goes_away_later_raises_llm_down(make):
    llm = make(ANSWERS[:1])
    llm.ask(ASKED)
    with pytest.raises(LLMDown):
        llm.ask(ASKED)
