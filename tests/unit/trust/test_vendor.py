"""The vendor's endpoint as the reference: what it is asked, what is kept of it, and where its key goes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import httpx
import pytest
from day0.agent import proving, referring, vendors
from day0.agent.settings import load
from day0.runs.errors import UserError
from day0.runs.facts import Progress
from day0.tools import canary, evals, probes
from day0.tools.canary import TaskItem
from day0.tools.harness.evaluate import rows as lm_eval_rows
from day0.tools.served import Answer
from day0.tools.vendor import Vendor

TASK = tuple(TaskItem(prompt=f"{a}+{a + 7}=", answer=str(2 * a + 7)) for a in range(10, 40))
KIT = probes.Kit(tool_parser="its own", reasoning_parser="its own")
URL = "https://api.vendor.example/v1"


@dataclass
class Inputs:
    """What a judgement reads of a climb's inputs."""

    model_folder: str


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


def test_what_it_cannot_tell_comes_from_the_baseline_where_nothing_plainer_is_booted():
    """As on a processor: log-probabilities and the chat template are compared nevertheless, for every candidate."""
    told = (Answer(key="task:0", text="2"),)
    own = (Answer(key="task:0", text="1"), Answer(key="probe:chat template", value={"usage": {"prompt_tokens": 9}}))
    alone = referring.Fixed(words="the vendor's endpoint at a", answers=told)
    store = {referring.NAME: alone.kept().data, referring.ANSWERS[0]: referring.REFERENCE.dump_json(own)}
    both = referring.Fixed.model_validate_json(referring.kept(store.get, "the defaults", own=False))
    assert {a.key: a.text for a in both.answers} == {"task:0": "2", "probe:chat template": ""}
    assert both.words == "the vendor's endpoint at a; what it can't tell, same-stack: the defaults"
    assert referring.kept(store.get, "the defaults", own=True) == alone.kept().data, "nothing is its own reference"
    booted = alone.model_copy(update={"argv": ("python",)})
    assert referring.kept({**store, referring.NAME: booted.kept().data}.get, "x", own=False) == booted.kept().data


def test_full_evals_are_put_to_it_too_and_pair_with_lm_evals_rows_by_question(tmp_path):
    """GSM8K's form: the last number of an answer counts, as lm-eval reads it; what says none is told as unread."""
    rows = [{"question": f"{a}+{a + 1}=", "answer": f"so\n#### {2 * a + 1}"} for a in range(10, 30)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (task,) = evals.asked([f"sums={tmp_path / 't.jsonl'}"], [], None)
    asked = evals.questions(task, 64)
    found = evals.scored(task, vendor().ask(asked), "the vendor")
    assert (found.share, found.by, len(found.rows)) == (1.0, "the vendor", 20) and not evals.broken(found)
    samples = [
        {"doc": doc, "filtered_resps": ["1"], "exact_match": n % 2}
        for n, doc in enumerate(evals.prepared(task, (tmp_path / "t.jsonl").read_bytes()))
    ]
    mine = {row["key"]: row["right"] for row in lm_eval_rows({"sums": samples})}
    assert set(mine) == set(found.rights()), "both know a question by the same name"
    judged = proving.judgements(
        task,
        evals.Scores(task="sums", rows=tuple(evals.Row(key=k, right=v) for k, v in mine.items())),
        {"sums": found.model_dump_json().encode()},
        "another",
        Inputs(str(tmp_path)),
    )
    assert [(j.against, j.verdict) for j in judged] == [("the vendor", "lossy")]
    silent = evals.scored(task, [Answer(key=q.key, text="I can't say") for q in asked], "the vendor")
    assert "only 0% of the reference's own answers could be read" in evals.broken(silent)
    facts = list(proving.ask_vendor(None, vendor=vendor(status=400), evals=(task,), room=64))
    assert [f.text for f in facts if isinstance(f, Progress) and f.step] == [
        "the vendor's endpoint at api.vendor.example is no reference for sums: 20 of 20 questions failed: "
        "HTTPStatusError 400"
    ]
    (kept,) = [f for f in proving.ask_vendor(None, vendor=vendor(), evals=(task,), room=64) if f.kind == "artifact"]
    assert kept.name == "reference-eval-sums.json" and b"the vendor's endpoint" in kept.data
    (tmp_path / "t.jsonl").write_text(json.dumps({"question": "q", "answer": "#### 1,250"}))
    other = evals.asked([f"sums={tmp_path / 't.jsonl'}"], [], None)[0]
    (one,) = evals.questions(other, 8)
    assert evals.scored(other, [Answer(key=one.key, text="It is $1250.")], "").rows[0].right


def test_a_run_is_compared_with_the_endpoint_it_was_asked_with(tmp_path, monkeypatch):
    for name in ("DAY0_REFERENCE_BASE_URL", "DAY0_REFERENCE_MODEL", "DAY0_REFERENCE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert vendors.named(load(home=tmp_path), "org/model") == ""
    settings = load(home=tmp_path, reference_base_url=URL, reference_api_key="sk-secret")
    assert vendors.named(settings, "org/model") == "the vendor's endpoint at api.vendor.example, model org/model"
    assert "sk-secret" in settings.secrets, "redaction knows it"
    with pytest.raises(UserError, match="reference_base_url"):
        load(home=tmp_path, reference_base_url="api.vendor.example")
