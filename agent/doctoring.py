"""What this machine has and lacks for a run on its own processor."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator

from day0.agent.settings import Settings
from day0.runs.errors import Day0Error
from day0.runs.values import Frozen

ENGINE_BYTES = 6 << 30


class Check(Frozen):
    """One thing that was looked at. `needed`: without it no run on the processor works."""

    name: str
    ok: bool
    found: str
    advice: str = ""
    needed: bool = True

    @property
    def mark(self) -> str:
        """ok, missing, or a thing that is merely nice to have."""
        return "ok" if self.ok else ("MISSING" if self.needed else "no")


def checks(settings: Settings) -> list[Check]:
    """All checks; none of them changes anything but making `$DAY0_HOME`."""
    out: list[Check] = []
    for look in (_python, _home, _ledger, _engine, _cores, _compiler, _git, _namespace, _llm):
        try:
            out += list(look(settings))
        except Day0Error as error:
            out.append(Check(name=look.__name__.strip("_"), ok=False, found=str(error)))
    return out


def _python(settings: Settings) -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check(name="Python", ok=sys.version_info >= (3, 11), found=version, advice="3.11 or newer")


def _home(settings: Settings) -> Iterator[Check]:
    try:
        settings.home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"{settings.home} can't be made ({error.strerror})"
        yield Check(name="disk", ok=False, found=why, advice="set DAY0_HOME to a folder of yours")
        return
    free = shutil.disk_usage(settings.home).free
    ok = free > ENGINE_BYTES and os.access(settings.home, os.W_OK)
    yield Check(
        name="disk", ok=ok, found=f"{free / 2**30:.1f} GiB free in {settings.home}", advice="6 GiB for engine and model"
    )


def _ledger(settings: Settings) -> Iterator[Check]:
    from day0.runs.ledger import Ledger

    ledger = Ledger.open(settings.database)
    count = len(ledger.runs(limit=1000))
    ledger.close()
    kind = "PostgreSQL" if settings.database.startswith("postgres") else "SQLite"
    yield Check(name="ledger", ok=True, found=f"{kind}, {count} runs")


def _engine(settings: Settings) -> Iterator[Check]:
    from day0.tools.environments import find

    found = find(settings.home)
    text = "not installed" if found is None else f"{found.name}, {found.build[:19]}"
    yield Check(name="engine", ok=found is not None, found=text, advice="day0 engine install cpu")


def _cores(settings: Settings) -> Iterator[Check]:
    cores = sorted(os.sched_getaffinity(0))
    yield Check(
        name="cores",
        ok=len(cores) >= 2,
        found=f"{len(cores)}: {cores[:8]}",
        advice="two: one serves, one generates the load",
    )


def _compiler(settings: Settings) -> Iterator[Check]:
    path = shutil.which("g++")
    yield Check(
        name="g++",
        ok=path is not None,
        found=path or "none",
        advice="apt install g++ opens torch.compile",
        needed=False,
    )


def _git(settings: Settings) -> Iterator[Check]:
    path = shutil.which("git")
    yield Check(
        name="git", ok=path is not None, found=path or "none", advice="apt install git, to make patches", needed=False
    )


def _namespace(settings: Settings) -> Iterator[Check]:
    from day0.sandboxes.isolation import grants_network_namespace

    ok = grants_network_namespace()
    yield Check(
        name="network namespaces",
        ok=ok,
        found="granted" if ok else "not granted",
        advice="sysctl user.max_user_namespaces, to run patched source apart",
        needed=False,
    )


def _llm(settings: Settings) -> Iterator[Check]:
    named = bool(settings.llm_base_url and settings.llm_model)
    yield Check(
        name="LLM",
        ok=named,
        found=f"{settings.llm_model} at {settings.llm_base_url}" if named else "none: the playbook decides",
        advice="DAY0_LLM_BASE_URL, DAY0_LLM_MODEL, DAY0_LLM_API_KEY",
        needed=False,
    )
