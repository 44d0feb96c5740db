"""Every flag that matters is an option of an axis, or says why not."""

import pytest
from day0.agent.policy.axes import Site, all_axes
from day0.agent.policy.axes_refused import MATTERS, NEITHER, NO_AXIS
from day0.agent.policy.bans import CONSENT, OWN
from day0.runs.engine_facts import FlagSpec, NodeFacts
from day0.runs.workload import Objective


def sites(glm, facts, work):
    """Places between which every GPU axis has its options: by model, traffic and build."""
    dense = glm["model"].model_copy(update={"experts": 0, "model_type": "llama", "architecture": "LlamaForCausalLM"})
    alone = work.model_copy(update={"cached_share": 0.0})
    older = facts()
    renamed = tuple(f for f in older.flags if f.name not in {"attn-dp-size", "cuda-graph-max-bs-decode"})
    older = older.model_copy(update={"flags": (*renamed, FlagSpec(name="cuda-graph-max-bs", takes_value=True))})
    for model in (glm["model"], dense):
        for traffic in (work, alone):
            for engine in (facts(), older):
                yield Site(model, engine, NodeFacts(name="n", gpus=8), glm["target"], traffic, Objective.GOODPUT)


@pytest.fixture
def searched(glm, facts, work):
    found = set()
    for site in sites(glm, facts, work):
        for axis in (a for a in all_axes() if "gpu" in a.kinds):
            for option in axis.options(site):
                found |= set(option.flags)
    return found


def test_every_flag_that_matters_is_an_axis_or_says_why_not(searched):
    for flag in MATTERS:
        assert (flag in searched) != (flag in NO_AXIS), flag
    assert set(NO_AXIS) <= set(MATTERS)


def test_what_is_no_axis_is_not_open_to_candidates_either():
    for flag in ("model-path", "host", "port", "enable-metrics"):
        assert flag in OWN
    assert "trust-remote-code" in CONSENT


def test_reasons_are_sentences():
    for text in (*NO_AXIS.values(), *NEITHER.values()):
        assert len(text.split()) > 5
