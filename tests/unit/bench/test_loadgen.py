"""The load generator's own program, with a client that never was: how a plan ends when it is told to."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import day0.tools.harness
import pytest

PLAN: dict[str, Any] = {
    "number": 1, "base_url": "http://h", "input_tokens": 8, "output_tokens": 4, "prefix_tokens": 4, "temperature": 0.0,
    "prefixes": [0, 10], "primes": [[0, 50], [0, 60], [1, 70], [1, 80]], "concurrency": None,
    "requests": [[0.0, 0, 20], [0.05, 1, 30]], "window_s": 0.1, "lead_s": 0.0, "drain_s": 30.0,
    "request_deadline_s": 60.0,
}  # fmt: skip


@pytest.fixture
def loadgen(monkeypatch, tmp_path):
    """The module as its folder has it: `client` and `prompts` lie beside it."""
    monkeypatch.syspath_prepend(str(Path(day0.tools.harness.__path__[0])))
    monkeypatch.chdir(tmp_path)
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    names = ("loadgen", "client", "files", "prompts")
    yield importlib.import_module("loadgen")
    for name in names:
        sys.modules.pop(name, None)


def point(loadgen, answers, plan=PLAN):
    """One plan over a client that calls `answers(number of the request)`."""
    asked = []

    async def send(item):
        out = loadgen.client.CURRENT.get()
        out["out"] = item.out
        asked.append(item)
        await answers(len(asked))
        item.out.success, item.out.latency = True, 0.02

    def made(**more):
        out = SimpleNamespace(ttft=0.01, itl=[0.001] * 3, generated_text="text", success=False)
        return SimpleNamespace(out=out, **more)

    module = SimpleNamespace(async_request_sglang_generate=send, RequestFuncInput=made)
    cutter = SimpleNamespace(
        head=lambda place, tokens: "head",
        exact=lambda head, place, tokens: (head, tokens),
        chat=True,
        forced=lambda text, tokens: 3 if text == "text" else None,
        joined=lambda places, block, tokens: ("text", tokens),
    )
    return loadgen.Point(module, cutter, plan), asked


async def at_once(number: int) -> None:
    pass


def hangs_at(wanted: int):
    async def answers(number: int) -> None:
        if number >= wanted:
            Path("cancel-1").touch()
            await asyncio.sleep(60)

    return answers


def test_a_plan_is_primed_and_run(loadgen):
    one, asked = point(loadgen, at_once)
    told = asyncio.run(one.run())
    assert len(asked) == 6 and len(told["requests"]) == 2 and not told["early"]
    assert [p["prefix"] for p in told["primes"]] == [0, 0, 1, 1]
    assert all(r["ok"] and r["output_tokens"] == 4 for r in told["requests"])
    assert [r["forced_tokens"] for r in told["requests"]] == [3, 3]


def test_a_plan_that_is_told_to_end_while_it_primes_ends_at_once(loadgen):
    one, asked = point(loadgen, hangs_at(3))
    told = asyncio.run(one.run())
    assert told["early"] and told["ended_s"] is None and told["requests"] == []
    assert len(asked) == 3 and len(told["primes"]) == 2, "no request was sent after that"


def test_a_plan_that_is_told_to_end_under_load_keeps_what_it_has(loadgen):
    one, _ = point(loadgen, hangs_at(6))
    told = asyncio.run(one.run())
    assert told["early"] and sorted(r["error"] for r in told["requests"]) == ["", "cut"]


def test_what_goes_wrong_while_preparing_is_told(loadgen):
    one, _ = point(loadgen, at_once, PLAN | {"requests": [[0.0, 7, 20]]})
    with pytest.raises(IndexError):
        asyncio.run(one.run())


@pytest.mark.parametrize(
    ("last", "error"),
    [
        ({"type": "length", "length": 4}, ""),
        (
            {"type": "abort", "status_code": 503, "message": "The request queue is full."},
            "aborted by the server: 503 The request queue is full.",
        ),
    ],
)
def test_s32_an_answer_that_the_server_gave_up_within_its_stream_is_a_failure(loadgen, last, error):
    """The HTTP status is 200 by then, tokens may have come, and the client counts it as a success."""
    parse = loadgen.client.NotingJson(json).loads

    async def answers(number: int) -> None:
        parse(json.dumps({"text": "te", "meta_info": {"completion_tokens": 2, "finish_reason": None}}))
        parse(json.dumps({"text": "te", "meta_info": {"completion_tokens": 4, "finish_reason": last}}))

    one, _ = point(loadgen, answers)
    told = asyncio.run(one.run())
    assert {(r["ok"], r["error"], r["output_tokens"]) for r in told["requests"]} == {(not error, error, 4)}
