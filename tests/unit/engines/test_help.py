import argparse

import pytest
from day0.runs.engine_facts import FlagSpec
from day0.tools.engines.help import parse_help, with_types
from hypothesis import given, settings
from hypothesis import strategies as st


def test_reads_every_form_of_a_flag(excerpt):
    flags = {flag.name: flag for flag in parse_help(excerpt)}
    assert list(flags) == [
        "model-path", "trust-remote-code", "revision", "dtype", "enable-tf32-matmul", "numa-node",
        "lora-target-modules", "ep-size", "host", "quiet", "verbosity", "log-level",
    ]  # fmt: skip
    assert flags["model-path"].aliases == ("model",)
    assert flags["model-path"].help == "Where the weights lie. A folder or a hub ID; for the rest see --revision."
    assert flags["revision"].help == "A branch, a tag or a commit."
    assert flags["revision"].metavar == "REVISION"
    assert not flags["trust-remote-code"].takes_value
    assert flags["dtype"].choices == ("auto", "half", "float16", "bfloat16")
    assert flags["enable-tf32-matmul"].negatable
    assert not flags["enable-tf32-matmul"].takes_value
    assert flags["numa-node"].many
    assert flags["numa-node"].metavar == "NUMA_NODE"
    assert flags["lora-target-modules"].many
    assert flags["lora-target-modules"].choices == ("q_proj", "k_proj", "all")
    assert flags["ep-size"].aliases == ("expert-parallel-size", "ep")
    assert flags["quiet"] == FlagSpec(name="quiet", takes_value=False)
    assert flags["log-level"].choices == ("0", "1", "2")


def test_a_flag_is_found_by_its_alias(facts):
    assert facts.flag("tensor-parallel-size").name == "tp-size"
    assert facts.flag("no-such") is None


def test_types_are_added_and_others_stay_unknown(excerpt):
    flags = with_types(parse_help(excerpt), {"ep": {"kind": "int", "default": 1}})
    by_name = {flag.name: flag for flag in flags}
    assert (by_name["ep-size"].kind, by_name["ep-size"].default) == ("int", "1")
    assert (by_name["host"].kind, by_name["host"].default) == ("", None)


names = st.from_regex(r"[a-z][a-z0-9]{1,11}(-[a-z0-9]{1,9}){0,3}", fullmatch=True).filter(
    lambda n: n != "help" and not n.startswith("no-")
)
words = st.text(st.sampled_from("abcxyz -.,'[]{}()%\n"), max_size=200)
shapes = st.sampled_from(["switch", "value", "choices", "many", "any", "negatable"])
given_flags = st.lists(st.tuples(st.lists(names, min_size=1, max_size=3, unique=True), shapes, words), max_size=12)


@settings(deadline=None, max_examples=60)
@given(given_flags)
def test_whatever_argparse_prints_is_read_back(monkeypatch_columns, asked):
    parser = argparse.ArgumentParser(prog="engine")
    expected, taken = [], set()
    for flag_names, shape, text in asked:
        if taken & set(flag_names) or any(f"no-{n}" in taken for n in flag_names):
            continue
        taken |= set(flag_names) | {f"no-{n}" for n in flag_names}
        options = {
            "switch": {"action": "store_true"},
            "value": {},
            "choices": {"choices": ["a", "bc", "1"]},
            "many": {"nargs": "+"},
            "any": {"nargs": "*", "choices": ["x", "y"]},
            "negatable": {"action": argparse.BooleanOptionalAction},
        }[shape]
        parser.add_argument(*(f"--{n}" for n in flag_names), help=text.replace("%", "%%"), **options)
        expected.append((tuple(flag_names), shape))
    found = parse_help(parser.format_help())
    assert [(flag.name, *flag.aliases) for flag in found] == [flag_names for flag_names, _ in expected]
    for flag, (_, shape) in zip(found, expected, strict=True):
        assert flag.takes_value == (shape not in ("switch", "negatable"))
        assert flag.negatable == (shape == "negatable")
        assert flag.many == (shape in ("many", "any"))
        assert flag.choices == {"choices": ("a", "bc", "1"), "any": ("x", "y")}.get(shape, ())


@pytest.fixture(scope="module")
def monkeypatch_columns():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "100")
        yield
