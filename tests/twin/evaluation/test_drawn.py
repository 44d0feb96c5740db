"""Drawn worlds are drawn once for each home."""

from __future__ import annotations

from pathlib import Path

from day0.agent.evaluation.drawn import _drawn, drawn


def test_a_kept_world_is_the_one_that_was_drawn(tmp_path: Path) -> None:
    first = drawn(3, tmp_path)
    (file,) = (tmp_path / "worlds").iterdir()
    _drawn.cache_clear()
    again = drawn(3, tmp_path)
    assert again == first and again.digest() == first.digest()
    file.write_text("{")
    _drawn.cache_clear()
    assert drawn(3, tmp_path) == first, "what can't be read any more is drawn again"
