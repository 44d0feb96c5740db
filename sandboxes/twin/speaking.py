"""What a simulated server answers to one call of its API: text, log-probabilities, tool calls, reasoning, JSON.

The same for a program in the harness and for a client of its port; right or wrong as `answers` says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from day0.sandboxes.twin import answers
from day0.sandboxes.twin.serving import LiveServer

SPOILT_NATS, SPREAD_NATS, KERNEL_NATS = 6.0, 2.5, 0.02
"""what a spoilt token loses, how far tokens differ, how far another configuration moves one"""


@dataclass(frozen=True)
class Said:
    """An answer and what it cost: tokens that were read and written."""

    value: Mapping[str, Any]
    read: int
    written: int


def asked(path: str, body: Mapping[str, Any]) -> tuple[str, int, int]:
    """(last text, characters in all, most tokens). Raises `KeyError` and its kin for what is no such request."""
    if path == "/generate":
        sampling = body.get("sampling_params") or {}
        text = str(body["text"] if "text" in body else " ".join(map(str, body["input_ids"])))
        return text, len(text), int(sampling.get("max_new_tokens", 128))
    most = int(body.get("max_tokens") or 128)
    if path == "/v1/completions":
        return str(body["prompt"]), len(str(body["prompt"])), most
    talk = [str(m.get("content") or "") for m in body["messages"]]
    return talk[-1], sum(map(len, talk)), most


def speak(live: LiveServer, path: str, body: Mapping[str, Any], concurrency: int) -> Said:
    """The answer while so many requests run. Raises as `asked`."""
    prompt, chars, most = asked(path, body)
    wrong, flavour = live.wrong(concurrency)
    text = answers.reply(prompt, most, right=live.world.model.right, wrong=wrong, flavour=flavour)
    spoilt = wrong > 0 and answers.dice("call", flavour, prompt) < wrong
    read, written = max(1, -(-chars // answers.CHARS_PER_TOKEN)), min(most, answers.tokens(text))
    if path == "/generate":
        if (body.get("sampling_params") or {}).get("ignore_eos"):
            written = most
        meta = {"prompt_tokens": read, "completion_tokens": written, "cached_tokens": 0}
        meta["finish_reason"] = {"type": "length"}  # type: ignore[assignment]
        if body.get("return_logprob"):
            meta["input_token_logprobs"] = forced(live, prompt, wrong, flavour)  # type: ignore[assignment]
        return Said({"text": text, "meta_info": meta}, read, written)
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
    if path == "/v1/completions":
        choice["text"] = text
    else:
        choice["message"] = _message(live, body, text, spoilt=spoilt)
        choice["finish_reason"] = "tool_calls" if choice["message"].get("tool_calls") else "stop"
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    return Said({"model": live.args["model_path"], "choices": [choice], "usage": usage}, read, written)


def forced(live: LiveServer, text: str, wrong: float, flavour: str) -> list[list[Any]]:
    """Log-probability and number of each token of a given text; the first has nothing before it."""
    size = answers.CHARS_PER_TOKEN
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    rows: list[list[Any]] = []
    for at, piece in enumerate(pieces):
        place = (text, str(at))
        value = -SPREAD_NATS * answers.dice("logprob", *place)
        value += KERNEL_NATS * (answers.dice("kernel", live.key, *place) - 0.5)
        if wrong and answers.dice("spoilt", flavour, *place) < wrong:
            value -= SPOILT_NATS
        rows.append([round(value, 5) if at else None, int(answers.dice("token", piece) * 2**17), None])
    return rows


def _message(live: LiveServer, body: Mapping[str, Any], text: str, *, spoilt: bool) -> dict[str, Any]:
    """A chat message, split by the parsers that the server was launched with."""
    out: dict[str, Any] = {"role": "assistant", "content": text}
    if live.args.get("reasoning_parser") and body.get("separate_reasoning", True) and not spoilt:
        out["reasoning_content"] = answers.prose(text, 24)
    if live.args.get("tool_call_parser") and body.get("tools") and not spoilt:
        made = body["tools"][0]["function"]
        words = [w.strip("?.!,") for w in str(body["messages"][-1]["content"]).split()]
        named = next((w for w in words[1:] if w[:1].isupper()), "here")
        arguments = {key: named for key in made["parameters"].get("properties", {})}
        call = {"name": made["name"], "arguments": json.dumps(arguments)}
        return out | {"content": None, "tool_calls": [{"id": "call_0", "type": "function", "function": call}]}
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        # a grammar binds what is said even where the model is broken
        out["content"] = json.dumps(_filled(form["json_schema"]["schema"]))
    return out


def _filled(schema: Mapping[str, Any]) -> Any:
    """A value of a JSON schema: the first that fits."""
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "object":
        return {key: _filled(part) for key, part in schema.get("properties", {}).items()}
    simple: dict[str, Any] = {"boolean": True, "integer": 7, "number": 7.0, "array": []}
    return simple.get(str(schema.get("type")), "seven")
