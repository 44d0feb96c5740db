"""Prompts as files, each with its version in its name: a changed prompt is a new file, so a run can name its own."""

from __future__ import annotations

from importlib.resources import files

PLAN = "plan.v2"


def load(name: str = PLAN) -> str:
    """The text of a prompt. Raises FileNotFoundError for a name that was never shipped."""
    return files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
