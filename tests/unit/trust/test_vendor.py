"""The vendor's endpoint as the reference: what it is asked, what is kept of it, and where its key goes."""

from __future__ import annotations

import json
import re

import httpx
import pytest
from day0.agent import referring, vendors
from day0.agent.settings import load
from day0.runs.errors import UserError
from day0.tools import canary, probes
from day0.tools.canary import TaskItem
from day0.tools.served import Answer
from day0.tools.vendor import Vendor

TASK = tuple(TaskItem(prompt=f"{a}+{a + 7}=", answer=str(2 * a + 7)) for a in range(10, 40))
KIT = probes.Kit(tool_parser="its own", reasoning_parser="its own")
URL = "https://api.vendor.example/v1"


def vendor(status=200, seen=None):
    def reply(request):
        body = json.loads(request.content)
        if seen is not None:
            seen.append((request.url, request.headers.get("authorization"), body))
        if status != 200:
            return httpx.Response(status, text="no")
        asked = re.search(r"(\d+)\+(\d+)=", body["messages"][-1]["content"])
        said = f"<think>easy</think>{int(asked[1]) + int(asked[2])}" if asked else "the rabbit went on"
        choice = {"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
        return httpx.Response(200, json={"choices": [choice], "usage": {"prompt_tokens": 9}})

    return Vendor(URL, "vendor-model", "sk-secret", httpx.MockTransport(reply))


def test_it_is_asked_the_same_questions_and_nothing_that_it_cannot_tell():
    seen = []
    asked = [*canary.questions(TASK, KIT, 400, 64), *canary.whole(TASK, 64)]
    answers = vendor(seen=seen).ask(list({q.key: q for q in asked}.values()))
    keys = {a.key for a in answers}
    assert "task:3" in keys and "long:0" in keys and probes.PREFIX + probes.TOOL in keys
    assert not any(k.startswith(probes.PREFIX + probes.LOGPROBS) or k == probes.PREFIX + probes.TEMPLATE for k in keys)
    assert all(str(url) == URL + "/chat/completions" and body["model"] == "vendor-model" for url, _, body in seen)
    control = canary.judge_accuracy(TASK, [a for a in answers if a.key.startswith("task:")], None)
    assert control.passed and control.score == 1.0, "what it thought stands before its answer"


def test_its_key_goes_to_it_and_into_no_fact():
    seen = []
    made = vendor(seen=seen)
    (answer,) = made.ask(canary.whole(TASK[:1], 16))
    assert seen[0][1] == "Bearer sk-secret"
    assert "sk-secret" not in repr(made) + answer.model_dump_json() + made.words
    assert made.words == "the vendor's endpoint at api.vendor.example"


def test_an_endpoint_that_refuses_is_no_reference():
    answers = vendor(status=401).ask(canary.whole(TASK, 16))
    assert all(a.error == "HTTPStatusError 401" for a in answers)
    assert not canary.judge_accuracy(TASK, answers, None).passed


def test_its_answers_come_before_those_of_this_node():
    own = (Answer(key="task:0", text="1"), Answer(key="probe:chat template", value={"usage": {"prompt_tokens": 9}}))
    both = referring.merged(own, (Answer(key="task:0", text="2"),))
    assert {a.key: a.text for a in both} == {"task:0": "2", "probe:chat template": ""}


def test_a_run_is_compared_with_the_endpoint_it_was_asked_with(tmp_path, monkeypatch):
    for name in ("DAY0_REFERENCE_BASE_URL", "DAY0_REFERENCE_MODEL", "DAY0_REFERENCE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert vendors.named(load(home=tmp_path), "org/model") == ""
    settings = load(home=tmp_path, reference_base_url=URL, reference_api_key="sk-secret")
    assert vendors.named(settings, "org/model") == "the vendor's endpoint at api.vendor.example, model org/model"
    assert "sk-secret" in settings.secrets, "redaction knows it"
    with pytest.raises(UserError, match="reference_base_url"):
        load(home=tmp_path, reference_base_url="api.vendor.example")
