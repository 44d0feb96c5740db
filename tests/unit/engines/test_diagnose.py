import random
import re
from pathlib import Path

import pytest
from day0.runs.engine_facts import EngineFacts
from day0.runs.errors import UserError
from day0.runs.facts import FailureClass
from day0.tools import known
from day0.tools.anchors import anchors_of
from day0.tools.diagnose import EVIDENCE_CHARS, count_lines, diagnose
from day0.tools.known import Stack, read_issues, release, strictly
from hypothesis import given
from hypothesis import strategies as st

NOISE = b"[2026-11-30 18:20:58] Decode batch, #running-req: 5, #token: 1127, token usage: 0.14, #queue-req: 0\n"
BEFORE = b"[2026-11-30 18:20:58] server_args=ServerArgs(model_path='/models/x')\n"
FOLDER = Path(known.__file__).parent / "knowledge"
FILES = sorted(file.name for file in FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("file", FILES)
def test_every_signature_finds_its_example_and_no_document_of_another_class_claims_it(file):
    for issue in strictly(file, (FOLDER / file).read_text()):
        assert len(issue.examples) == len(issue.signatures), issue.id
        for example in issue.examples:
            found = diagnose(BEFORE * 3 + example.encode() + b"\n" + (b"" if issue.at_end else BEFORE * 3))
            assert found.failure == issue.failure, (issue.id, example, found)
            assert issue.general or found.issue == issue.id, (issue.id, example, found)
            assert issue.id in (found.issue, found.form, *found.also)
            assert issue.general or found.evidence in example


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
    assert found.also == ("child-failed", "form-killed")
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
    ("pattern", "anchors"),
    [
        (r"abc def", {b"abc def"}), (r"ab?cdef", {b"cdef"}), (r"xyz(?:long alternative|other)?zz", {b"xyz"}),
        (r"(?:one|two)\b", {b"one", b"two"}), (r"\[Errno 28\] No", {b"[Errno 28] No"}), (r"a[bc]defg*h", {b"def"}),
        (r"port \d+ is", {b"port "}), (r"[Ww]atchdog (?i:x)", {b"atchdog "}),
    ],
)  # fmt: skip
def test_one_of_the_anchors_is_in_every_match(pattern, anchors):
    assert set(anchors_of(pattern)) == anchors


@pytest.mark.parametrize("pattern", [r"(?:one|x)", r"(?i)abcdef", r"\w+", r"(", r"(?:abcdef)?"])
def test_a_pattern_with_nothing_to_search_for_is_refused(pattern):
    with pytest.raises(ValueError):
        anchors_of(pattern)


def test_lines_of_a_slow_path_are_counted():
    assert (
        count_lines(rb"falling back|default config", b"a\nfalling back to x\nusing default config\nfalling back\n") == 3
    )
    assert count_lines(rb"falling back", b"none\n") == 0


LOGS = Path(__file__).with_name("logs")


def cases(name):
    """Pairs of class and log of a file in which `=== CLASS` begins each log."""
    parts = ("\n" + (LOGS / name).read_text()).split("\n=== ")[1:]
    return [(wanted.strip(), log) for wanted, _, log in (part.partition("\n") for part in parts)]


@pytest.mark.parametrize(("name", "least"), [("tuned_on.txt", 1.0), ("held_out.txt", 0.8)])
def test_failures_that_nobody_reported_get_their_class_and_other_programs_none(name, least):
    wrong = []
    for wanted, log in cases(name):
        found = diagnose(log.encode())
        assert (found.confidence > 0) == (found.failure != "unknown")
        assert found.evidence in log
        if found.failure != wanted:
            wrong.append((wanted, str(found.failure), found.form or found.issue, found.evidence))
    assert len(wrong) <= (1 - least) * len(cases(name)), wrong
    assert not [w for w in wrong if w[0] == "unknown"], "an unrelated log is never guessed at"


def test_an_error_in_a_warning_is_no_failure():
    log = b"[2026-11-30 18:20:58] WARNING: RuntimeError: HIP error: invalid device function, trying another kernel\n"
    assert diagnose(log + NOISE).failure == "unknown"
    assert diagnose(log.replace(b"WARNING: ", b"") + NOISE).failure == "unsupported_arch"


def test_an_engine_that_tells_its_configuration_shows_no_failure():
    told = b"[2026-12-01 10:00:00] server_args=ServerArgs(model_path='/m', download_dir=None, on_error='fail')"
    assert diagnose(told).failure == "unknown"
    waits = told + b"\n[aiter] waiting for baton release at /root/.aiter/jit/build/lock_module_moe\n"
    assert diagnose(waits).issue == "jit-stale-lock"


def test_an_error_of_another_program_is_unknown_and_shown():
    found = diagnose(b"Traceback (most recent call last):\nModuleNotFoundError: No module named 'flask'\nbye\n")
    assert (found.failure, found.confidence) == ("unknown", 0.0)
    assert found.telling == ("ModuleNotFoundError: No module named 'flask'",)


def test_memory_that_somebody_else_holds_is_a_leftover():
    said = "torch.OutOfMemoryError: HIP out of memory. GPU 0 has a total capacity of 288.00 GiB of "
    own = "which 1.00 GiB is free. Of the allocated memory 250.00 GiB is allocated by PyTorch, and 1 GiB is reserved"
    others = "which 1.00 GiB is free. Of the allocated memory 20.00 GiB is allocated by PyTorch, and 1 GiB is reserved"
    assert diagnose((said + own).encode()).failure == "oom"
    found = diagnose((said + others).encode())
    assert (found.failure, found.issue) == ("port_leftover", "unknown")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("confidence: 0.9", "k.yaml:15: `confidence`: input should be less than or equal to 1, not 7"),
        ("tells: cause", "k.yaml:16: unknown key `color`"),
        ("signatures: ['no lock']", "k.yaml:13: `signatures`: no text of 3 characters"),
        ("id: second", "k.yaml:10: the id `first` is taken by k.yaml:1"),
        ("schema: day0/known-issue/v1", "k.yaml:10: the line `schema: day0/known-issue/v1` is missing"),
        ("failure: oom", "k.yaml:12: `failure`: input should be"),
    ],
)
def test_a_wrong_document_is_named_with_its_line(wrong, said):
    one = """schema: day0/known-issue/v1
id: first
failure: oom
signatures: ['no room']
cause: x
confidence: 0.9
remedies: [{kind: none, text: x}]
"""
    two = """schema: day0/known-issue/v1
id: second
failure: oom
signatures: ['no lock']
remedies: [{kind: none, text: x}]
confidence: 0.9
tells: cause
cause: x
"""
    put = {
        "confidence: 0.9": "confidence: 7",
        "tells: cause": "color: red",
        "signatures: ['no lock']": "signatures: ['(?i)xyz']",
        "id: second": "id: first",
        "schema: day0/known-issue/v1": "",
        "failure: oom": "failure: bad luck",
    }[wrong]
    text = f"# notes\n{one}---\n{two.replace(wrong, put)}"
    with pytest.raises(UserError, match=re.escape(said)):
        read_issues({"k.yaml": text})
    assert [issue.id for issue in read_issues({"k.yaml": f"# notes\n{one}---\n{two}"})] == ["first", "second"]


def test_how_an_engine_is_configured_is_never_why_it_failed():
    """Names of settings hold words of trouble: an unknown crash stays one, and is not taken for the network's."""
    told = b"server_args=ServerArgs(tokenizer_backend='huggingface', load_fail_policy=None, dist_timeout=None)"
    _is_no_reason(told)


def _is_no_reason(told):
    log = b"[2026-11-30 00:02:19] " + told + b"\n[2026-11-30 00:02:30] no such thing as a seventh rank\n"
    assert diagnose(log).failure == FailureClass.UNKNOWN


@pytest.mark.parametrize("begins", [b"server_args=", b"resolved: "])
def test_a_configuration_told_as_a_mapping_is_no_reason_either(begins):
    """SGLang 0.5.23 prints its arguments as a mapping; the same length of settings counts behind any word."""
    settings = b", ".join(b"'setting_%d': None" % number for number in range(12))
    _is_no_reason(begins + b"{" + settings + b", 'tokenizer_backend': 'huggingface', 'dist_timeout': None}")


def test_s18_a_killed_scheduler_is_told_by_the_whole_log_of_a_real_server():
    """SGLang 0.5.23 on a processor: nothing that a healthy boot prints is taken for the reason."""
    log = (LOGS / "scheduler_killed_after_a_stop.txt").read_bytes()
    found = diagnose(log)
    assert (found.failure, found.issue) == (FailureClass.CRASHED, "scheduler-killed")
    healthy = log[: log.index(b"The server is fired up")]
    assert diagnose(healthy).failure == FailureClass.UNKNOWN
