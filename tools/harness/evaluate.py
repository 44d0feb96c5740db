"""One task through lm-eval against a running server. Runs in the evals environment: `python evaluate.py N`.

Reads `eval-N.json` (base_url, model, concurrency, folder, task, max_tokens, limit); the folder has the task as lm-eval
wants it, data beside it, and nothing is fetched. Writes `scores-N.json`: per question its key, whether it was right and
whether an answer could be read at all.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

INVALID = "[invalid]"


def run(ask: dict[str, Any]) -> dict[str, Any]:
    """lm-eval's own evaluation, per question."""
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", DO_NOT_TRACK="1")
    os.environ.setdefault("HF_HOME", str(Path("hf").absolute()))
    evaluator, tasks = importlib.import_module("lm_eval.evaluator"), importlib.import_module("lm_eval.tasks")
    args = {
        "base_url": ask["base_url"] + "/v1/chat/completions",
        "model": ask["model"],
        "num_concurrent": ask["concurrency"],
        "max_retries": 2,
        "timeout": ask["request_deadline_s"],
        "tokenized_requests": False,
        "max_gen_toks": ask["max_tokens"],
    }
    found = evaluator.simple_evaluate(
        model="local-chat-completions",
        model_args=args,
        tasks=[ask["task"]],
        task_manager=tasks.TaskManager(include_path=ask["folder"], include_defaults=False),
        limit=ask["limit"],
        apply_chat_template=True,
        log_samples=True,
        bootstrap_iters=0,
        gen_kwargs={"max_gen_toks": ask["max_tokens"]},
    )
    return {"rows": rows(found["samples"]), "lm_eval": importlib.import_module("importlib.metadata").version("lm-eval")}


def rows(samples: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The last filter's verdict on each question; a question is known by its content, not by its place."""
    out: dict[str, dict[str, Any]] = {}
    for task in sorted(samples):
        for sample in samples[task]:
            key = task + ":" + hashlib.sha256(json.dumps(sample["doc"], sort_keys=True).encode()).hexdigest()[:16]
            read = str(sample["filtered_resps"][0]) if sample["filtered_resps"] else ""
            right = bool(sample.get("exact_match") or sample.get("acc"))
            out[key] = {"key": key, "right": right, "answered": bool(read) and read != INVALID}
    return sorted(out.values(), key=lambda row: row["key"])


def main(number: str) -> int:
    """Reads what to ask, writes the scores whole or not at all."""
    ask = json.loads(Path(f"eval-{number}.json").read_text(encoding="utf-8"))
    part = Path(f"scores-{number}.json.part")
    part.write_text(json.dumps(run(ask)), encoding="utf-8")
    part.replace(f"scores-{number}.json")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
