"""Results that outlive a process: a score is kept under the hash of world, job and all code that decides it."""

from __future__ import annotations

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from day0.agent.evaluation.playing import Job, world_of
from day0.agent.evaluation.scoring import Score
from day0.runs.values import canonical_json, sha256

DECIDES = (
    ("day0.runs", ""),
    ("day0.sandboxes", ""),
    ("day0.tools", ""),
    ("day0.agent", "policy"),
    ("day0.agent", "prompts"),
    ("day0.agent", "answering.py ceiling.py climb.py confirm.py craft_checks.py crafting.py inputs.py lease.py"),
    ("day0.agent", "preparing.py scripted_llm.py seeing.py stability.py surveying.py twin.py"),
    ("day0.agent.evaluation", "arena.py book.py confirming.py drawn.py playing.py scoring.py"),
)
"""(package, names in it; none: all of it). Tables and command lines change no result."""
SUFFIXES = (".py", ".yaml", ".txt", ".md", ".json", ".csv")


@cache
def code() -> str:
    """A hash over the text of everything that decides a result."""
    parts: list[str] = []
    for package, names in DECIDES:
        root = resources.files(package)
        for place in [root.joinpath(name) for name in names.split()] or [root]:
            _read(place, package, parts)
    return sha256("\n".join(parts))


def _read(place: Traversable, name: str, parts: list[str]) -> None:
    if place.is_dir():
        for inner in sorted(place.iterdir(), key=lambda p: p.name):
            if inner.name not in {"__pycache__", "migrations", "world"}:  # worlds have hashes of their own
                _read(inner, f"{name}/{inner.name}", parts)
    elif place.name.endswith(SUFFIXES):
        parts.append(f"{name}/{place.name}\n{place.read_text(encoding='utf-8')}")


def place(job: Job, home: Path) -> Path:
    """Where the score of a job lies. Raises `UserError` for a world that is none."""
    found = world_of(job, home)
    key = sha256(canonical_json([found.digest(), job.model_dump(mode="json", exclude={"world"}), code()]))
    return home / "eval" / f"{found.name}-{job.policy}-{job.seed}-{key[7:23]}.json"


def kept(job: Job, home: Path) -> Score | None:
    """The score of an earlier time; None: there is none, or it can't be read any more."""
    try:
        return Score.model_validate_json(place(job, home).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def keep(job: Job, score: Score, home: Path) -> None:
    """Writes a score, whole or not at all. Raises `OSError`."""
    file = place(job, home)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(score.canonical(), encoding="utf-8")
    part.replace(file)
