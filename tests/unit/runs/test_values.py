"""Values that cannot change, and what is derived of them."""

from __future__ import annotations

from day0.runs.engine_facts import EngineFacts, FlagSpec


def test_a_copy_with_other_flags_knows_the_other_flags():
    first = EngineFacts(engine="e", build="b", version="1", flags=(FlagSpec(name="old", takes_value=True),))
    assert first.flag("old") is not None
    other = first.model_copy(update={"flags": (FlagSpec(name="new", takes_value=True),)})
    assert other.flag("new") is not None and other.flag("old") is None
    assert first.flag("old") is not None and first.flag("new") is None
