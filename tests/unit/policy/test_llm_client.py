"""The client against a real OpenAI-compatible HTTP server on loopback that answers from a script."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from day0.agent.llm import BREAKER_S, RETRIES, Endpoint, OpenAILLM
from day0.agent.policy.base import Asked, LLMDown, Message, Usage
from day0.agent.policy.calls import TOOLS
from day0.agent.toolless import calls_in
from day0.runs.errors import UserError
from hypothesis import given
from hypothesis import strategies as st

KEY = "sk-test-0123456789abcdef"
ASKED = Asked(messages=(Message(role="system", content="plan"), Message(role="user", content="go")), tools=tuple(TOOLS))


def completion(content="", calls=(), usage=(100, 20)) -> dict:
    message: dict = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {"id": f"c{i}", "type": "function", "function": {"name": n, "arguments": a}}
            for i, (n, a) in enumerate(calls)
        ]
    return {
        "id": "x", "object": "chat.completion", "created": 1, "model": "served-model",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)},
    }  # fmt: skip


class Server:
    """Answers from `script`: (status, body, headers) each; keeps what it was asked."""

    def __init__(self):
        self.script: list = []
        self.bodies: list[dict] = []
        self.headers: list[dict] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                outer.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                outer.headers.append({k.lower(): v for k, v in self.headers.items()})
                status, body, headers = outer.script.pop(0) if outer.script else (200, completion("{}"), {})
                if status == 0:  # the connection breaks
                    self.close_connection = True
                    return
                data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"content-type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    def say(self, *answers):
        self.script = [a if isinstance(a, tuple) else (200, a, {}) for a in answers]

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    one = Server()
    yield one
    one.close()


@pytest.fixture
def client(server):
    made, slept = [], []
    now = [0.0]

    def make(**more):
        endpoint = Endpoint(server.url, "planner", KEY, **more.pop("endpoint", {}))
        llm = OpenAILLM(endpoint, sleep=slept.append, clock=lambda: now[0], **more)
        made.append(llm)
        return llm

    make.slept, make.now = slept, now
    yield make
    for llm in made:
        llm.close()


def test_tool_calls_come_back_raw_with_usage(server, client):
    server.say(completion("thinking", [("finish", '{"reason": "x"}'), ("made_up", "not json")], (1000, 50)))
    llm = client(endpoint={"usd_in": 2.0, "usd_out": 10.0})
    told = llm.ask(ASKED)
    assert told.calls == (("finish", '{"reason": "x"}'), ("made_up", "not json"))
    assert told.text == "thinking" and told.model == "served-model"
    assert told.usage == Usage(calls=1, prompt_tokens=1000, completion_tokens=50, usd=0.0025) == llm.spent
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    sent = server.bodies[0]
    assert sent["model"] == "planner" and {t["function"]["name"] for t in sent["tools"]} == set(TOOLS)


@pytest.mark.parametrize("status", [400, 404, 422, 501])
def test_a_server_without_tools_gets_plain_json(server, client, status):
    error = {"error": {"message": "this model does not support tools", "type": "invalid_request_error"}}
    text = 'Sure:\n```json\n{"calls": [{"tool": "finish", "arguments": {"reason": "done"}}]}\n```'
    server.say((status, error, {}), completion(text), completion(text))
    llm = client()
    assert llm.ask(ASKED).calls == (("finish", '{"reason": "done"}'),)
    assert "tools" not in server.bodies[1] and "try_candidate" in server.bodies[1]["messages"][-1]["content"]
    llm.ask(ASKED)  # remembered: not asked with tools again
    assert len(server.bodies) == 3 and client.slept == []


def test_a_server_that_ignores_tools_is_understood_too(server, client):
    server.say(completion('{"name": "read_help", "arguments": {"word": "stream"}}'))
    assert client().ask(ASKED).calls == (("read_help", '{"word": "stream"}'),)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529, 408])
def test_s52_passing_failures_are_tried_again_with_back_off(server, client, status):
    server.say((status, {"error": {"message": "busy"}}, {}), (status, "<html>", {}), completion("ok"))
    assert client().ask(ASKED).text == "ok"
    assert client.slept == [1.0, 2.0]


def test_retry_after_is_obeyed_within_bounds(server, client):
    busy = {"error": {"message": "slow down"}}
    server.say((429, busy, {"retry-after": "7"}), (429, busy, {"retry-after": "86400"}), completion("ok"))
    client().ask(ASKED)
    assert client.slept == [7.0, 30.0]


def test_broken_connections_and_pages_instead_of_json_are_passing_failures(server, client):
    server.say((0, "", {}), (200, "<html>proxy</html>", {"content-type": "text/html"}), completion("ok"))
    assert client().ask(ASKED).text == "ok"


def test_a_timeout_is_a_passing_failure(server, client):
    gate = threading.Event()
    real = server.script

    class Slow(list):
        def pop(self, *_):
            gate.wait(2)
            return (200, completion("late"), {})

    server.script = Slow([1])
    with pytest.raises(LLMDown, match=r"no answer within 0\.05 s"):
        client(endpoint={"timeout_s": 0.05}).ask(ASKED)
    gate.set()
    server.script = real
    assert len(client.slept) == RETRIES - 1


def test_s52_an_endpoint_that_stays_away_is_down_after_bounded_tries(server, client):
    server.say(*[(503, {"error": {"message": "no capacity"}}, {})] * 20)
    with pytest.raises(LLMDown, match="no capacity"):
        client().ask(ASKED)
    assert len(server.bodies) == RETRIES


@pytest.mark.parametrize("status", [401, 403, 400])
def test_a_refusal_is_not_tried_again(server, client, status):
    server.say((status, {"error": {"message": f"bad key {KEY}"}}, {}))
    with pytest.raises(LLMDown) as caught:
        client().ask(ASKED)
    assert len(server.bodies) == 1 and KEY not in str(caught.value) and str(status) in str(caught.value)


def test_the_circuit_opens_and_closes_again(server, client):
    server.say(*[(401, {"error": {"message": "no"}}, {})] * 2, completion("back"))
    llm = client()
    for _ in range(2):
        with pytest.raises(LLMDown):
            llm.ask(ASKED)
    with pytest.raises(LLMDown, match="left alone"):
        llm.ask(ASKED)
    assert len(server.bodies) == 2
    client.now[0] += BREAKER_S + 1
    assert llm.ask(ASKED).text == "back"


def test_an_endpoint_that_does_not_exist_is_down(client, server):
    server.close()
    with pytest.raises(LLMDown, match="no connection"):
        client().ask(ASKED)
    server.close = lambda: None


def test_s53_cost_and_calls_are_capped_over_restarts(server, client):
    with pytest.raises(LLMDown, match="budget"):
        client(endpoint={"usd_cap": 1.0}, spent=Usage(usd=1.0)).ask(ASKED)
    with pytest.raises(LLMDown, match="3 LLM calls"):
        client(endpoint={"calls_cap": 3}, spent=Usage(calls=3)).ask(ASKED)
    assert server.bodies == []


def test_s59_what_is_kept_of_a_call_has_no_secret(server, client):
    kept: list[dict] = []
    server.say(completion(f"your key is {KEY}", [("finish", json.dumps({"reason": f"hf_abcdefghijklmnop {KEY}"}))]))
    asked = Asked(messages=(Message(role="user", content=f"API_KEY={KEY} hf_abcdefghijklmnop"),), tools=("finish",))
    client(keep=kept.append).ask(asked)
    stored = json.dumps(kept)
    assert KEY not in stored and "hf_abcdefghijklmnop" not in stored
    assert kept[0]["usage"]["prompt_tokens"] == 100 and kept[0]["error"] == ""
    assert KEY not in json.dumps(server.bodies)  # nor does it go out in a message
    assert KEY not in repr(Endpoint("http://x", "m", KEY))


def test_failures_are_kept_as_well(server, client):
    kept: list[dict] = []
    server.say((401, {"error": {"message": "no"}}, {}))
    with pytest.raises(LLMDown):
        client(keep=kept.append).ask(ASKED)
    assert kept[0]["error"] and kept[0]["calls"] == []


def test_an_answer_without_choices_is_a_failure_not_a_crash(server, client):
    empty = {**completion(), "choices": []}
    server.say(empty, empty, empty, empty)
    with pytest.raises(LLMDown, match="no chat completion"):
        client().ask(ASKED)


def test_the_environment_names_the_endpoint():
    env = {"DAY0_LLM_BASE_URL": "https://h/v1", "DAY0_LLM_MODEL": "m", "DAY0_LLM_API_KEY": "k"}
    assert Endpoint.of(env) == Endpoint("https://h/v1", "m", "k")
    assert Endpoint.of({}) is None
    with pytest.raises(UserError, match="DAY0_LLM_MODEL"):
        Endpoint.of({"DAY0_LLM_BASE_URL": "https://h/v1"})
    with pytest.raises(UserError, match="http"):
        Endpoint.of({"DAY0_LLM_BASE_URL": "h:80"})


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("no call here", ()),
        ('{"tool": "finish", "arguments": {"reason": "a"}}', (("finish", '{"reason": "a"}'),)),
        ('{"kind": "finish", "reason": "a"}', (("finish", '{"reason": "a"}'),)),
        ('[{"name": "a", "arguments": "{}"}, {"name": "b"}]', (("a", "{}"), ("b", "{}"))),
        ('<think>{"tool": "finish", "arguments": {}}</think> {"tool": "x"}', (("x", "{}"),)),
        ('{"tool_calls": [{"function": {"name": "a", "arguments": "{\\"b\\": 1}"}}]}', (("a", '{"b": 1}'),)),
        ('broken { "tool": "a" {"tool": "c"}', (("c", "{}"),)),
    ],
)
def test_calls_are_found_in_text(text, calls):
    assert calls_in(text) == calls


@given(st.text(max_size=300))
def test_no_text_breaks_the_search_for_calls(text):
    assert all(isinstance(name, str) for name, _ in calls_in(text))


def test_a_flood_of_brackets_ends_soon():
    assert calls_in("[" * 100_000) == ()


def test_a_reasoning_model_that_names_its_limit_otherwise_is_asked_so(server, client):
    error = {"error": {"message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' with this tool."}}
    server.say((400, error, {}), completion("x"), completion("y"))
    llm = client()
    assert (llm.ask(ASKED).text, llm.ask(ASKED).text) == ("x", "y")
    assert ["max_tokens" in body for body in server.bodies] == [True, False, False]
    assert server.bodies[2]["max_completion_tokens"] == ASKED.max_tokens and "tools" in server.bodies[2]


def test_an_answer_that_ran_into_the_limit_says_so(server, client):
    long = completion("and so on")
    long["choices"][0]["finish_reason"] = "length"
    server.say(long)
    assert client().ask(ASKED).cut_off


@pytest.mark.parametrize("counted", [True, False])
def test_s53_tokens_are_capped_also_where_a_server_does_not_count_them(server, client, counted):
    answer = completion("x" * 4000, usage=(100, 900))
    if not counted:
        del answer["usage"]
    server.say(answer, answer)
    llm = client(endpoint={"tokens_cap": 1000})
    llm.ask(ASKED)
    assert llm.spent.prompt_tokens + llm.spent.completion_tokens >= 1000
    with pytest.raises(LLMDown, match="1000 LLM tokens of this run are used up"):
        llm.ask(ASKED)


def test_the_call_is_kept_with_the_prompts_name(server, client):
    kept: list[dict] = []
    client(keep=kept.append).ask(ASKED.model_copy(update={"prompt": "plan.v3"}))
    assert kept[0]["prompt"] == "plan.v3"
