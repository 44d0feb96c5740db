"""Prompts as files, each with its version in its name: a changed prompt is a new file, so a run can name its own."""

from __future__ import annotations

from importlib.resources import files

PLAN = "plan.v3"
CRITIC = "critic.v1"


def load(name: str = PLAN) -> str:
    """The text of a prompt. Raises FileNotFoundError for a name that was never shipped."""
    if name not in names():
        raise FileNotFoundError(name)
    return files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")


def names() -> tuple[str, ...]:
    """All that ship, sorted."""
    return tuple(sorted(f.name.removesuffix(".md") for f in files(__name__).iterdir() if f.name.endswith(".md")))
