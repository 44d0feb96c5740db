"""Runs one full eval against a running server, from the evals environment, in a harness sandbox of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from pathlib import Path

from day0.runs.errors import Infrastructure
from day0.sandboxes.base import Node, Process, Sandbox
from day0.sandboxes.spec import SandboxSpec
from day0.tools.evals import Eval, Row, Scores, files
from day0.tools.pause import pause_s
from day0.tools.served import Served

DEADLINE_S = 6 * 3600.0
REQUEST_DEADLINE_S = 1800.0
RESULT_BYTES = 64 << 20
GRACE_S = 3.0
OUT = "out.jsonl"


def places(task: Eval) -> tuple[str, ...]:
    """Folders of this host that a command names by absolute paths, as words of their own or behind a `=`, but for its
    program's: a sandbox that does not share the host's files must be shown them. Of a file its folder, since programs
    find what lies beside them.
    """
    named = (Path(word if word.startswith("/") else word.partition("=")[2]) for word in task.command[1:])
    there = (path for path in named if path.is_absolute() and path.exists())
    return tuple(dict.fromkeys(str(path if path.is_dir() else path.parent) for path in there))


def own_environment(task: Eval) -> str:
    """The virtual environment that a command's program lies in; empty: it brings none."""
    folder = Path(task.command[0]).parent.parent if task.command else Path()
    return str(folder) if folder.is_absolute() and (folder / "pyvenv.cfg").is_file() else ""


def evaluate(node: Node, spec: SandboxSpec, server: Served, task: Eval, *, concurrency: int, max_tokens: int) -> Scores:
    """The scores per question. Raises what `server.alive()` raises; `Infrastructure` where the eval itself fails.

    A command's own environment stands for that of `spec`.
    """
    shown = tuple((path, path) for path in places(task))
    spec = replace(spec, environment=own_environment(task) or spec.environment, mounts=(*spec.mounts, *shown))
    with node.open(spec) as sandbox:
        process = _start(sandbox, server, task, concurrency, max_tokens)
        began, longest = node.clock.now(), min(10.0, server.attention_s)
        try:
            while (ended := process.poll()) is None:
                server.alive()
                if (waited := node.clock.now() - began) > DEADLINE_S:
                    raise Infrastructure(f"eval {task.name} did not end within {DEADLINE_S / 3600:.0f} h")
                node.clock.sleep(pause_s(waited, longest))
        finally:
            process.stop(GRACE_S)
        if ended.code:
            last = process.output(0, 1 << 20)[-400:].decode(errors="replace").strip()
            raise Infrastructure(f"eval {task.name} ended with code {ended.code}: {last}")
        return Scores(task=task.name, rows=_rows(sandbox, task))


def _start(sandbox: Sandbox, server: Served, task: Eval, concurrency: int, max_tokens: int) -> Process:
    base = f"http://127.0.0.1:{server.port}"
    if task.kind == "command":
        known = {"{base_url}": f"{base}/v1", "{model}": server.facts.model_path, "{out}": OUT}
        argv = [_filled(word, known) for word in task.command]
        return sandbox.spawn(argv)
    for name, data in files(task).items():
        sandbox.write(f"task/{name}", data)
    sandbox.write("evaluate.py", resources.files("day0.tools.harness").joinpath("evaluate.py").read_bytes())
    ask = {
        "base_url": base,
        "model": server.facts.model_path,
        "concurrency": concurrency,
        "folder": "task",
        "task": task.name,
        "max_tokens": max_tokens,
        "limit": None,
        "request_deadline_s": REQUEST_DEADLINE_S,
    }
    sandbox.write("eval-1.json", json.dumps(ask).encode())
    return sandbox.spawn(["python", "-u", "evaluate.py", "1"])


def _filled(word: str, known: dict[str, str]) -> str:
    for key, value in known.items():
        word = word.replace(key, value)
    return word


def _rows(sandbox: Sandbox, task: Eval) -> tuple[Row, ...]:
    """From what the program wrote. Raises `Infrastructure` where that is not what it should have."""
    try:
        if task.kind == "command":
            lines = sandbox.read(OUT, RESULT_BYTES).decode().splitlines()
            values = [json.loads(line) for line in lines if line.strip()]
            return tuple(Row(key=f"{task.name}:{v['id']}", right=v["right"]) for v in values)
        return tuple(Row.model_validate(row) for row in json.loads(sandbox.read("scores-1.json", RESULT_BYTES))["rows"])
    except FileNotFoundError:
        raise Infrastructure(f"eval {task.name} ended without its results") from None
    except (ValueError, KeyError, TypeError) as error:
        raise Infrastructure(f"eval {task.name} wrote something else than its results: {error}"[:300]) from None
