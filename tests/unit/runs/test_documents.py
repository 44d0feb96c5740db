"""Documents: what fits is read, what does not is one sentence with its line."""

import re

import pytest
from day0.runs.documents import VERSIONS, load, names, shipped, target, workload
from day0.runs.errors import UserError
from day0.runs.values import Frozen
from day0.runs.workload import Target, Workload
from day0.runs.yaml_text import Malformed, parse, write
from hypothesis import given, settings
from hypothesis import strategies as st

GOOD = "schema: day0/workload/v1\nname: mine\ninput_tokens: 320\noutput_tokens: 48\nslo:\n  ttft_ms: 1500\n"


def test_a_good_document_is_read(tmp_path):
    (tmp_path / "mine.yaml").write_text(GOOD)
    found = workload(str(tmp_path / "mine.yaml"))
    assert found == load(GOOD, "workload", Workload)
    assert (found.name, found.slo.ttft_ms, found.arrival) == ("mine", 1500, "poisson")


BAD = [
    (GOOD + "colour: red\n", r"x:7: unknown key `colour`; allowed here: name, summary, input_tokens"),
    (GOOD + "  tftt_ms: 3\n", r"x:7: unknown key `tftt_ms`; allowed here: ttft_ms, ttft_percentile"),
    (GOOD.replace("input_tokens", "input_token"), r"x:3: unknown key `input_token`; allowed here"),
    (GOOD.replace("320", "'320'"), r'x:3: `input_tokens`: .*integer, not "320"'),
    (GOOD.replace("320", "0"), r"x:3: `input_tokens`: .*greater than or equal to 1, not 0"),
    (GOOD.replace("1500", "-1"), r"x:6: `slo.ttft_ms`: .*greater than 0, not -1"),
    (GOOD.replace("1500", "yes"), r"x:6: `slo.ttft_ms`: .*number, not \"yes\""),
    (GOOD.replace("name: mine\n", ""), r"x:1: `name` is missing"),
    (GOOD + "name: again\n", r"x:7: `name` stands here twice"),
    (GOOD.replace("name: mine", "name: !!python/object/apply:os.system [id]"), r"x:2: the tag .* is not allowed"),
    (GOOD.replace("mine", "!!python/name:os.system x"), r"x:2: the tag .* is not allowed"),
    (GOOD.replace("mine", "&a mine"), r"x:2: anchors and aliases"),
    (GOOD.replace("320", ".nan"), r"x:3: .nan is not a finite number"),
    (GOOD.replace("320", "9" * 50), r"x:3: a number of more than 40 digits"),
    (GOOD.replace("mine", "'mine"), r"x:\d+: found unexpected end of stream"),
    (GOOD.replace("mine", "mi\x00ne"), r"x:2: a character that YAML does not allow: U\+0000"),
    (GOOD.replace("v1", "v2"), r"x:1: schema `day0/workload/v2` is not one .*day0/workload/v1"),
    (GOOD.replace("workload/", "target/"), r"x:1: schema `day0/target/v1`"),
    (GOOD.partition("\n")[2], r"x:1: the line `schema: day0/workload/v1` is missing"),
    ("- a\n- b\n", r"x:1: a document is a list of `key: value` lines"),
    ("", r"x:1: a document is"),
    ("? [a]\n: b\n", r"x:1: a key must be text"),
    ("a: " + "[" * 60 + "]" * 60, r"x:1: nested too deeply"),
    ("a: " + "[" * 50_000, r"x:1: nested too deeply"),
    (GOOD.replace("day0/workload/v1", "[1]"), r"x:1: schema `\[1\]` is not one"),
    ("--- a\n--- b\n", r"x:2: but found another document"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=range(len(BAD)))
def test_what_does_not_fit_is_said_with_its_line(text, message):
    with pytest.raises(UserError) as caught:
        load(text, "workload", Workload, name="x")
    assert str(caught.value).count("\n") == 0
    assert re.search(message, str(caught.value)), str(caught.value)


def test_unreadable_files_are_said_plainly(tmp_path):
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    huge = tmp_path / "huge.yaml"
    with huge.open("wb") as file:
        file.truncate(10 * 2**20)
    for path, why in (
        (tmp_path / "no.yaml", "no such file"),
        (tmp_path, "is a folder"),
        (binary, "not UTF-8"),
        (huge, "larger than 1 MiB"),
    ):
        with pytest.raises(UserError, match=why):
            load(path, "workload", Workload)


def test_an_unknown_name_lists_what_there_is():
    with pytest.raises(UserError, match="no workload `agentic`: take one of agentic-20k1k, chat-1k1k"):
        workload("agentic")
    with pytest.raises(UserError, match="no target `gpu`: take one of cpu, cpu-docker, cpu-quick, mi355x, mi355x-here"):
        target("gpu")


def test_everything_shipped_is_sound():
    workloads = {name: workload(name) for name in names("workload")}
    targets = {name: target(name) for name in names("target")}
    assert {*workloads} >= {"agentic-20k1k", "single-stream-10k1500", "chat-1k1k", "summarize-8k1k", "cpu-chat"}
    for name, found in (workloads | targets).items():
        assert found.name == name
    for found in targets.values():
        assert found.workload in workloads
        assert found.boot_cap_s > found.boot_stall_s
    for name, found in workloads.items():
        limited = found.slo.ttft_ms or found.slo.tpot_ms
        assert limited or "no SLO is published" in found.summary, name


def test_targets_keep_to_the_rules_of_measuring():
    node, twin, cpu, quick = (target(name) for name in ("mi355x", "mi355x-twin", "cpu", "cpu-quick"))
    for big in (node, twin):
        assert (big.gpus, big.stall_s, big.boot_cap_s) == (8, 300, 2400)
        assert (big.measure.min_requests, big.measure.p95_multiples, big.measure.stability_s) == (300, 10, 2700)
        assert not big.measure.short
    assert (node.kind, twin.kind) == ("docker", "twin")
    assert (cpu.measure.point_s, cpu.measure.stability_s, cpu.stall_s, cpu.measure.short) == (8, 120, 45, True)
    assert not {*cpu.server_cores} & {*cpu.harness_cores}
    assert (quick.measure.max_points, quick.measure.max_pairs, quick.measure.stability_s) == (3, 2, 0)
    assert quick.max_attempts == 4


def test_shipped_files_lie_where_they_are_said_to():
    for kind in ("workload", "target"):
        for name in names(kind):
            assert shipped(kind, name).read_text().count(f"schema: day0/{kind}/v{VERSIONS[kind][-1]}") == 1


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff\ufffe\uffff"), max_size=30)
TRICKY = st.sampled_from(
    ["yes", "on", "1e3", "0x10", "010", "1:30", "2020-01-01", "~", "", ".inf", "-", "#", "a: b", "1_0"]
)
SCALARS = st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | TEXT | TRICKY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT | TRICKY, inner, max_size=3),
    max_leaves=12,
)


@settings(deadline=None)
@given(value=VALUES)
def test_what_is_written_is_read_back_as_it_was(value):
    text = write({"top": value})
    found, lines = parse(text)
    assert found == {"top": value}
    assert repr(found) == repr({"top": value})
    assert lines[("top",)] == 1


@settings(deadline=None)
@given(text=st.text(max_size=60))
def test_any_text_is_parsed_or_malformed(text):
    try:
        parse(text)
    except Malformed as error:
        assert 1 <= error.line <= text.count("\n") + text.count("\r") + text.count("\x85") + text.count("\u2028") + 2


@settings(deadline=None)
@given(text=st.text(max_size=60))
def test_any_text_is_a_document_or_a_users_mistake(text):
    class Anything(Frozen):
        x: int = 0

    try:
        load(text, "known-issue", Anything)
    except UserError as error:
        assert "document:" in str(error)


def test_targets_of_ones_own_may_leave_out_what_has_a_default():
    text = shipped("target", "cpu").read_text()
    short = "\n".join(
        line for line in text.splitlines() if not line.startswith(("gpus:", "engine:", "baseline_label:"))
    )
    found = load(short, "target", Target)
    assert (found.gpus, found.engine) == (0, "sglang")
