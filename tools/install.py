"""Installs the CPU engine and the load generator, each into an environment of its own under day0's home.

Both differ from day0's own environment: SGLang pins an openai client that day0 can't use, and whatever measures must
not be what is measured. pip's own configuration decides where packages come from; no index is named here.
An environment can't be moved, so it is built in place and counts only once its marker file is written; an
interrupted installation goes on where pip left off.
"""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from day0.runs.errors import DiskFull, Infrastructure, Timeout, UserError
from day0.runs.facts import FailureClass
from day0.sandboxes.base import Node, Sandbox
from day0.sandboxes.spec import SandboxSpec
from day0.tools import install_steps
from day0.tools.diagnose import diagnose
from day0.tools.engines import cpu_platform
from day0.tools.environments import (
    CHECKS,
    ENGINE,
    EVALS,
    HARNESS,
    MARKER,
    EngineHome,
    Installed,
    engines_folder,
    environment_digest,
    find,
    listing,
    packages,
)
from day0.tools.install_steps import REQUIREMENTS, Steps, data
from day0.tools.programs import source

Progress = Callable[[str], None]
STEP_CAP_S = 3600.0
"""A CUDA build of torch is several GB; on a slow line that takes its time."""
SILENT_CAP_S = 900.0
NEEDS_BYTES = {ENGINE: 4 << 30, HARNESS: 1 << 30, EVALS: 1 << 30, CHECKS: 2 << 30}
_TELLING = re.compile(r"^(Collecting|Downloading|Using cached|Installing collected|Successfully|Processing) ?(\S*)")
_IMPORTS = {
    ENGINE: """import torch, torchvision, transformers, sglang.srt.server_args
from sglang.srt.platforms import current_platform
assert type(current_platform).__name__ == "CpuPlatform", current_platform""",
    HARNESS: "import numpy, aiohttp, transformers, datasets, importlib.util as u; assert u.find_spec('sglang')",
    CHECKS: "import clang_tidy",
    EVALS: "import lm_eval.evaluator, lm_eval.models.openai_completions",
}


def install_cpu(node: Node, home: str | Path, progress: Progress) -> EngineHome:
    """Both environments, made or found. 70-90 s where wheels are near; repeated, it does nothing.

    Raises `UserError` (no venv module, no packages for this Python), `DiskFull`, `Infrastructure` (registry out of
    reach, an import that fails), `Cancelled`.
    """
    _environment(node, Path(home), ENGINE, install_steps.engine, progress)
    install_harness(node, home, progress)
    found = find(home)
    if found is None:
        raise Infrastructure(f"the environments under {engines_folder(home)} vanished while they were installed")
    return found


def install_harness(node: Node, home: str | Path, progress: Progress) -> Path:
    """The load generator's environment alone, for an engine that is here already. Raises as `install_cpu`."""
    _environment(node, Path(home), HARNESS, install_steps.harness, progress)
    return engines_folder(home) / HARNESS


def install_evals(node: Node, home: str | Path, progress: Progress) -> Path:
    """lm-eval for the winner's full evals, which only a run that asks for them needs. Raises as `install_cpu`."""
    _environment(node, Path(home), EVALS, install_steps.evals, progress)
    return engines_folder(home) / EVALS


def install_checks(node: Node, home: str | Path, progress: Progress) -> Path:
    """clang-tidy and, where no engine here has them, HIP's headers, for patches to kernels. Raises as `install_cpu`."""
    _environment(node, Path(home), CHECKS, install_steps.checks, progress)
    return engines_folder(home) / CHECKS


def _environment(node: Node, home: Path, name: str, steps: Steps, progress: Progress) -> None:
    folder = engines_folder(home) / name
    if _marker(folder).get("recipe") == environment_recipe(name):
        progress(f"{name}: installed in {folder}")
        return
    _make_room(folder, NEEDS_BYTES[name])
    with _alone(node, folder, progress):
        if _marker(folder).get("recipe") != environment_recipe(name):
            _build(node, folder, name, steps, progress)


@contextmanager
def _alone(node: Node, folder: Path, progress: Progress) -> Iterator[None]:
    """Waits until no other process makes this folder; the kernel frees the lock when its holder dies."""
    with folder.with_name(f".{folder.name}.lock").open("w") as lock:
        told = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not told:
                    progress(f"{folder.name}: another process makes it; waiting")
                told = True
                node.clock.sleep(1.0)
            else:
                break
        yield


def _build(node: Node, folder: Path, name: str, steps: Steps, progress: Progress) -> None:
    began = node.clock.now()
    (folder / MARKER).unlink(missing_ok=True)
    spec = SandboxSpec(role="job", environment="", attempt=f"install-{name}", network="registry")
    with node.open(spec) as sandbox:
        if not (folder / "bin" / "python").exists():
            _run(
                node, sandbox, [sys.executable, "-m", "venv", "--clear", str(folder)], f"{name}: environment", progress
            )
        for what, argv in steps(folder, sandbox):
            _run(node, sandbox, argv, f"{name}: {what}", progress)
        check = [str(folder / "bin/python"), "-c", _IMPORTS[name]]
        _run(node, sandbox, check, f"{name}: imports", progress)
    marker = {
        "recipe": environment_recipe(name),
        "digest": environment_digest(folder),
        "packages": packages(folder),
        "seconds": round(node.clock.now() - began, 1),
    }
    fresh = folder / f"{MARKER}.tmp"
    fresh.write_text(json.dumps(marker, indent=1, sort_keys=True))
    fresh.replace(folder / MARKER)
    progress(f"{name}: done in {marker['seconds']} s")


def environment_recipe(name: str) -> str:
    """What an environment is made from; a new version of day0 with other pins installs again."""
    from day0.runs.values import sha256

    wheel = cpu_platform.wheel() if name == ENGINE else b""
    return sha256(data(REQUIREMENTS[name]) + wheel + _IMPORTS[name].encode())


def _marker(folder: Path) -> dict[str, object]:
    try:
        value = json.loads((folder / MARKER).read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _make_room(folder: Path, needed: int) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder.parent).free
    except OSError as error:
        raise UserError(
            f"{folder.parent} can't be written ({error.strerror}); set DAY0_HOME to a folder of yours"
        ) from None
    have = sum(1 for _ in folder.glob("lib/python3*/site-packages/torch")) * needed // 2
    if free + have < needed:
        raise DiskFull(f"{folder.parent} has {free >> 20} MiB free, {folder.name} needs {needed >> 20} MiB")


def _run(node: Node, sandbox: Sandbox, argv: Sequence[str], what: str, progress: Progress) -> bytes:
    """Runs one step to its end; its telling lines go to `progress`. Raises as `install_cpu`."""
    progress(what)
    process = sandbox.spawn(argv)
    offset, began, heard = 0, node.clock.now(), node.clock.now()
    kept = b""
    while True:
        ended = process.poll()
        fresh = process.output(offset, 1 << 20)
        if fresh:
            offset, heard, kept = offset + len(fresh), node.clock.now(), (kept + fresh)[-65536:]
            for line in fresh.decode(errors="replace").splitlines():
                if told := _TELLING.match(line.strip()):
                    progress(f"{what}: {told[0][:100]}")
        elif ended is not None:
            break
        now = node.clock.now()
        if now - began > STEP_CAP_S or now - heard > SILENT_CAP_S:
            process.stop(5.0)
            raise Timeout(f"{what} made no progress for {now - heard:.0f} s; run the same command again to go on")
        node.clock.sleep(0.25)
    if ended.code:
        _explain(what, kept, ended.code)
    return kept


def _explain(what: str, output: bytes, code: int) -> None:
    text = output.decode(errors="replace")
    errors = [line.strip() for line in text.splitlines() if re.search(r"error|failed", line, re.IGNORECASE)]
    last = errors[-1][:300] if errors else " ".join(text.split())[-300:]
    if diagnose(output).failure == FailureClass.DISK_FULL:
        raise DiskFull(f"{what}: {last}")
    if "ensurepip" in text or "No module named venv" in text:
        raise UserError("this Python has no venv module; install it (Debian, Ubuntu: apt install python3-venv)")
    if "No matching distribution" in text or "ResolutionImpossible" in text:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise Infrastructure(f"{what}: the package registry has nothing that fits Python {version}: {last}")
    raise Infrastructure(f"{what} failed (exit {code}): {last}")


def tiny_model(
    node: Node,
    engine: EngineHome,
    folder: str | Path,
    *,
    damaged: bool = False,
    layers: int = 8,
    seed: int = 0,
    progress: Progress,
) -> Path:
    """Makes the small trained model in `folder`, with its task file; about 20 s. Returns the folder.

    Raises `UserError` when something else lies there, `Infrastructure` when training fails. A folder that already
    holds a model made by this is left as it is.
    """
    place = Path(folder).expanduser().absolute()
    if (place / "day0-task.jsonl").is_file() and (place / "config.json").is_file():
        progress(f"{place} holds a model already")
        return place
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise UserError(f"{place} is not an empty folder; name another one")
    place.parent.mkdir(parents=True, exist_ok=True)
    with _alone(node, place, progress):
        if not (place / "day0-task.jsonl").is_file():
            _train(node, engine, place, damaged=damaged, layers=layers, seed=seed, progress=progress)
    return place


def _train(
    node: Node, engine: EngineHome, place: Path, *, damaged: bool, layers: int, seed: int, progress: Progress
) -> None:
    """Trains beside the final folder, which appears in one step when it is whole."""
    half = place.with_name(f".{place.name}.part")
    shutil.rmtree(half, ignore_errors=True)
    spec = SandboxSpec(role="job", environment=engine.engine, attempt="tiny-model")
    with node.open(spec) as sandbox:
        sandbox.write("tiny_model.py", source("tiny_model"))
        argv = ["python", "tiny_model.py", str(half), "--layers", str(layers), "--seed", str(seed)]
        output = _run(node, sandbox, [*argv, "--damaged"] if damaged else argv, "training a small model", progress)
    if place.is_dir():
        place.rmdir()
    half.rename(place)
    progress(output.decode(errors="replace").strip().splitlines()[-1])


__all__ = ["EngineHome", "Installed", "environment_digest", "find", "install_cpu", "listing", "tiny_model"]
