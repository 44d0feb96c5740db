"""Chat questions at a concurrency. Runs in the harness environment: `python ask.py N`.

Reads `ask-N.json` (base_url, model, concurrency, temperature, request_deadline_s, questions [key, prompt, max_tokens,
path, body]); writes `answers-N.json`: answers in the questions' order, failed ones too. A question with a body is put
as it stands, and its answer comes whole.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from pathlib import Path
from typing import Any


async def put(session: Any, ask: dict[str, Any], question: dict[str, Any]) -> dict[str, Any]:
    """One question; whatever goes wrong becomes its `error`."""
    plain = {
        "messages": [{"role": "user", "content": question["prompt"]}],
        "temperature": ask["temperature"],
        "max_tokens": question["max_tokens"],
        "stream": False,
    }
    own, path = question.get("body"), question.get("path") or "/v1/chat/completions"
    body = (own or plain) | ({"model": ask["model"]} if path.startswith("/v1/") else {})
    out: dict[str, Any] = {"key": question["key"]}
    try:
        async with session.post(ask["base_url"] + path, json=body) as response:
            text = await response.text()
            if response.status != 200:
                return out | {"error": f"HTTP {response.status}: {text[:300]}"}
            value = json.loads(text)
            if own:
                return out | {"value": value}
            choice = value["choices"][0]
            return out | {
                "text": choice["message"].get("content") or "",
                "finish": str(choice.get("finish_reason") or ""),
                "tokens": (value.get("usage") or {}).get("completion_tokens"),
            }
    except Exception as error:
        return out | {"error": f"{type(error).__name__}: {error}"[:300]}


async def run(ask: dict[str, Any]) -> list[dict[str, Any]]:
    """All questions, at most `concurrency` at a time."""
    aiohttp = importlib.import_module("aiohttp")
    gate = asyncio.Semaphore(ask["concurrency"])
    limits = aiohttp.ClientTimeout(total=ask["request_deadline_s"])
    async with aiohttp.ClientSession(timeout=limits, connector=aiohttp.TCPConnector(limit=0)) as session:

        async def one(question: dict[str, Any]) -> dict[str, Any]:
            async with gate:
                return await put(session, ask, question)

        return list(await asyncio.gather(*(one(q) for q in ask["questions"])))


def main(number: str) -> int:
    """Reads the questions, writes the answers whole or not at all."""
    ask = json.loads(Path(f"ask-{number}.json").read_text(encoding="utf-8"))
    part = Path(f"answers-{number}.json.part")
    part.write_text(json.dumps({"answers": asyncio.run(run(ask))}), encoding="utf-8")
    part.replace(f"answers-{number}.json")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
