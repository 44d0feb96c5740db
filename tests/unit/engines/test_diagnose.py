import random

import pytest
from day0.runs.engine_facts import EngineFacts
from day0.tools.diagnose import EVIDENCE_CHARS, count_lines, diagnose
from day0.tools.known import Stack, known_issues, longest_literal, release
from hypothesis import given
from hypothesis import strategies as st

EXAMPLES = [(issue, i) for issue in known_issues() for i in range(len(issue.signatures))]
NOISE = b"[2026-11-30 18:20:58] Decode batch, #running-req: 5, #token: 1127, token usage: 0.14, #queue-req: 0\n"


@pytest.mark.parametrize(("issue", "i"), EXAMPLES, ids=[f"{issue.id}-{i}" for issue, i in EXAMPLES])
def test_every_signature_matches_its_example_and_nothing_else_claims_it(issue, i):
    assert len(issue.examples) == len(issue.signatures)
    found = diagnose(NOISE * 3 + issue.examples[i].encode() + b"\n" + NOISE * 3)
    assert found.issue == issue.id
    assert found.failure == issue.failure
    assert found.evidence.endswith(issue.examples[i][:EVIDENCE_CHARS])


def test_a_healthy_log_has_no_known_issue():
    lines = b"""usage: warnings.warn(
[2026-11-30 18:19:31] Ignore import error when loading sglang.srt.models.inkling: No module named 'cutlass'
[2026-11-30 18:19:13] Fail to set RLIMIT_NOFILE: current limit exceeds maximum limit
x.py:53: UserWarning: Only CUDA, HIP and XPU support AWQ currently.
Multi-thread loading shards:   0%|\rMulti-thread loading shards: 100%|
[2026-11-30 18:24:01] The server is fired up and ready to roll!
"""
    found = diagnose(lines)
    assert (found.issue, found.failure, found.confidence) == ("unknown", "unknown", 0.0)


def test_the_root_cause_goes_before_the_symptom():
    log = b"""Scheduler hit an exception: Traceback (most recent call last):
  File "x.py", line 1, in f
RuntimeError: 0 active drivers ([]). There should only be one.
SIGQUIT received. signum=None, frame=None. It usually means one child failed.
"""
    found = diagnose(log)
    assert found.issue == "cpu-triton-no-driver"
    assert found.also == ("child-failed",)
    assert found.remedies[0].kind == "flag"


def test_an_unknown_failure_shows_the_last_error_and_else_the_last_line():
    log = b"Traceback (most recent call last):\n  File x\nValueError: strange\nFooError: stranger\nbye\n"
    assert diagnose(log).evidence == "FooError: stranger"
    assert diagnose(b"one\ntwo\n\n").evidence == "two"
    assert diagnose(b"").evidence == ""
    symptom = b"Scheduler hit an exception: Traceback (most recent call last):\nQueerError: x\n"
    assert (diagnose(symptom).issue, diagnose(symptom).evidence) == ("child-failed", "QueerError: x")


def test_s67_evidence_has_no_terminal_escapes_and_is_cut():
    log = b"\x1b[31merror: unrecognized arguments: --x\x1b[0m \x1b]0;title\x07" + b"y" * 5000 + b"\n"
    found = diagnose(log)
    assert found.issue == "argument-unknown"
    assert "\x1b" not in found.evidence
    assert len(found.evidence) == EVIDENCE_CHARS


@given(st.integers(0, 2**32), st.integers(1, 60))
def test_a_stream_gives_the_same_answer_as_the_whole(seed, step):
    log = NOISE * 4 + b"OSError: [Errno 28] No space left on device: '/x'\r\nlast words\n"
    rng = random.Random(seed)
    cuts = sorted(rng.randrange(len(log)) for _ in range(step))
    pieces = [log[a:b] for a, b in zip([0, *cuts], [*cuts, len(log)], strict=True)]
    assert diagnose(iter(pieces)) == diagnose(log)


def test_ten_megabytes_and_a_flood_of_near_misses_are_read_to_the_end():
    near = b"ValueError: no flag here, Port is not already, error: argument none\n" * 150_000
    found = diagnose([near, b"RuntimeError: No HIP GPUs are available\n", b"x" * 3_000_000])
    assert found.issue == "no-gpu-visible"


def test_an_issue_expires_with_its_stack():
    log = b"AssertionError: param.shape=torch.Size([6144, 6144]), loaded_weight.shape=torch.Size([6144, 12288])\n"

    def facts(version):
        return EngineFacts(engine="sglang", build="b", version=version, flags=(), packages={"sglang": version})

    assert diagnose(log, facts=facts("0.5.15.post1")).issue == "quant-half-width"
    assert diagnose(log, facts=facts("0.5.17")).issue == "unknown"
    assert diagnose(log).issue == "quant-half-width"


def test_versions_are_ordered_by_number():
    assert release("0.5.9") < release("0.5.15") < release("0.5.15.post1") < release("0.5.17")
    assert release("2.13.0+cpu") == (2, 13, 0)
    assert Stack(package="x", since="1.0").may_apply(None)


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        (r"abc def", "abc def"), (r"ab?cdef", "cdef"), (r"xy(?:long alternative|other)zz", "xy"), (r"one|two", ""),
        (r"\[Errno 28\] No", "[Errno 28] No"), (r"a[bc]defg*h", "def"), (r"port \d+ is", "port "), (r"n{3}abc", "abc"),
    ],
)  # fmt: skip
def test_the_anchor_is_in_every_match(pattern, literal):
    assert longest_literal(pattern) == literal


def test_lines_of_a_slow_path_are_counted():
    assert (
        count_lines(rb"falling back|default config", b"a\nfalling back to x\nusing default config\nfalling back\n") == 3
    )
    assert count_lines(rb"falling back", b"none\n") == 0
