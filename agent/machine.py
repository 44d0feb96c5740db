"""`engine install|list|tiny-model`, `doctor`, `gc`: what the commands do on this machine."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from pathlib import Path

from day0.agent import compose, contained
from day0.agent import settings as settings_
from day0.agent.doctoring import checks
from day0.agent.looking import say, say_json, table
from day0.agent.sources import opened
from day0.runs.errors import UserError
from day0.sandboxes.spec import CancelToken

DAY_S = 86400.0
PIP = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_CONFIG_FILE", "PIP_TRUSTED_HOST", "PIP_CERT")
"""pip's own configuration: where a machine has a mirror, it is named there and nowhere in day0"""


def install(name: str) -> None:
    """Installs an engine."""
    if name not in {"cpu", "harness", "evals", "checks"}:
        told = (
            "take `cpu`, `harness` (the load generator alone), `evals` (lm-eval for a run with --eval) or `checks` "
            "(clang-tidy for patches to kernels)"
        )
        raise UserError(f"there is no engine `{name}` to install: {told}")
    from day0.tools.install import install_checks, install_cpu, install_evals, install_harness

    settings = settings_.load()
    node = compose.local_node(settings, stopping(), PIP)
    alone = {"evals": install_evals, "harness": install_harness, "checks": install_checks}
    if name in alone:
        say(str(alone[name](node, settings.home, progress)))
        return
    made = install_cpu(node, settings.home, progress)
    say(f"{made.engine}\n{made.harness}")


def use(folder: Path, name: str) -> None:
    """Names an engine that is on this machine already."""
    from day0.tools.own_engine import use as register

    say(f"{name}: {folder.expanduser().absolute()}, build {register(settings_.load().home, name, folder)[:19]}")


def engines(*, as_json: bool) -> None:
    """Lists what is installed."""
    from day0.tools.environments import listing
    from day0.tools.own_engine import listing as own_engines

    home = settings_.load().home
    rows = [found.model_dump(mode="json") for found in (*listing(home), *own_engines(home))]
    if as_json:
        say_json(rows)
        return
    columns = ("name", "build", "packages", "seconds", "folder")
    table("", columns, ([r["build"][:19] or "not finished" if c == "build" else r[c] for c in columns] for r in rows))


def tiny_model(folder: Path, *, damaged: bool, layers: int) -> None:
    """Makes the small trained model."""
    from day0.tools.environments import find
    from day0.tools.install import tiny_model as make

    settings = settings_.load()
    engine = find(settings.home)
    if engine is None:
        raise UserError("the small model is trained with the engine's PyTorch: run `day0 engine install cpu` first")
    node = compose.local_node(settings, stopping())
    say(str(make(node, engine, folder, damaged=damaged, layers=layers, progress=progress)))


def progress(text: str) -> None:
    """A line on stderr."""
    sys.stderr.write(text + "\n")


def stopping() -> CancelToken:
    """A token that SIGTERM sets; Ctrl-C raises by itself."""
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    return lambda: bool(told)


def doctor(*, as_json: bool) -> int:
    """Checks this machine. 3 when something that a run needs is missing."""
    found = checks(settings_.load())
    if as_json:
        say_json([c.model_dump(mode="json") for c in found])
    else:
        table("", ("", "check", "found", "what to do"), ((c.mark, c.name, c.found, c.advice) for c in found))
    return 3 if any(c.needed and not c.ok for c in found) else 0


def gc(days: float, *, sweep_only: bool) -> None:
    """Cleans up; what a recipe or an unfinished run names is kept."""
    settings = settings_.load()
    swept = compose.local_node(settings, stopping()).sweep()
    if told := contained.sweep(settings):
        say(told)
    say(
        f"stopped {len(swept.stopped)} processes of dead runs"
        + (f", {len(swept.failed)} would not die" if swept.failed else "")
    )
    if sweep_only:
        return
    with opened() as (_, ledger):
        kept: set[str] = set()
        builds: set[str] = set()
        contains = False
        for run in ledger.runs(limit=100_000):
            winners = {e.attempt for e in ledger.facts(run.id, "confirmed") if e.data["ok"]}
            builds |= {a.candidate.build for a in ledger.attempts(run.id) if a.id in winners}
            contains |= run.finished_at is None and run.request.target.kind == "docker"
            for event in ledger.facts(run.id, "artifact"):
                if run.finished_at is None or event.attempt in winners:
                    kept.add(str(event.data["stored"]))
        going = {run.id for run in ledger.runs(limit=100_000) if run.finished_at is None}
        for left in (settings.home / "twin").glob("*"):
            if left.name not in going:
                shutil.rmtree(left, ignore_errors=True)
    if not contains and (
        told := contained.prune(settings, builds, time.time() - days * DAY_S)
    ):  # else a run may need them
        say(told)
    gone = compose.artifacts(settings).gc(kept, days * DAY_S)
    say(f"removed {gone.files} artifacts, {gone.bytes / 2**20:.1f} MiB")
