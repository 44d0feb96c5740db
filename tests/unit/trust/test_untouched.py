"""S36, S37: what measures is what it was, and nothing beats the silicon."""

from __future__ import annotations

import os
import time
from base64 import urlsafe_b64encode
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from day0.agent.ceiling import ceiling_rps, checked
from day0.agent.inputs import ClimbInputs
from day0.agent.parts import Environments
from day0.agent.preparing import unharmed, untampered
from day0.runs.candidate import Candidate
from day0.runs.documents import target, workload
from day0.runs.errors import Infrastructure
from day0.runs.facts import LoadPoint
from day0.tools.engines.sglang import Sglang
from day0.tools.environments import MARKER
from day0.tools.untouched import later, stamps, touched, words

from tests.unit.policy.conftest import GLM, MODEL, engine_facts

CANDIDATE = Candidate(
    engine="sglang", build="sha256:e", model="m", revision="r", flags={"tp-size": 4, "dp-size": 2}
)  # fmt: skip
AGENTIC = workload("agentic-20k1k")


@pytest.fixture
def harness(tmp_path: Path) -> Path:
    folder = tmp_path / "harness" / "lib" / "sglang"
    folder.mkdir(parents=True)
    (folder / "bench_serving.py").write_text("fair = True\n")
    (folder / "timer.py").write_text("import time\n")
    return tmp_path / "harness"


def inputs(harness: Path) -> ClimbInputs:
    digests = {"engine": "sha256:e", str(harness): "sha256:h"}
    at = Environments("engine", "sha256:e", str(harness), "sha256:h", digest=digests.__getitem__)
    aim = target("mi355x-twin")
    return ClimbInputs(aim, (AGENTIC,), Sglang(), engine_facts(), GLM, "/m", at, 0, 0.03)


def test_s37_a_candidate_that_touched_the_load_generator_makes_its_boot_count_for_nothing(harness):
    given, before = inputs(harness), stamps(str(harness))
    assert len(before) == 2
    unharmed(given, CANDIDATE, before)
    (harness / "lib" / "sglang" / "__pycache__").mkdir()
    (harness / "lib" / "sglang" / "__pycache__" / "timer.cpython-311.pyc").write_bytes(b"compiled by the client")
    unharmed(given, CANDIDATE, before)
    file = harness / "lib" / "sglang" / "bench_serving.py"
    old = file.stat()
    file.write_text("fair = None\n")  # as long as before, and its time set back
    os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns))
    with pytest.raises(Infrastructure, match=r"nothing of it counts: lib/sglang/bench_serving.py$"):
        unharmed(given, CANDIDATE, before)


def test_s37_what_an_earlier_boot_left_in_the_load_generator_is_found_before_the_next(harness):
    site = harness / "lib" / "python3.11" / "site-packages"
    info = site / "client-1.dist-info"
    info.mkdir(parents=True)
    file = site / "client.py"
    file.write_text("seconds = 1\n")
    digest = urlsafe_b64encode(sha256(file.read_bytes()).digest()).rstrip(b"=").decode()
    (info / "RECORD").write_text(f"client.py,sha256={digest},12\n")
    (harness / MARKER).write_text("{}")
    time.sleep(0.02)  # the system tells times apart by a few milliseconds
    given = inputs(harness)
    assert "lib/python3.11/site-packages/client.py" in untampered(given)
    (harness / "note.txt").write_text("of nobody's package")
    assert later(untampered(given), MARKER) == ("note.txt",)
    file.write_text("seconds = 0\n")
    with pytest.raises(Infrastructure, match=r"are not what was installed: client.py; remove .*harness and run"):
        untampered(given)


def test_s37_an_environment_that_is_another_afterwards_is_found_too(harness):
    given = inputs(harness)
    other = replace(given, environments=replace(given.environments, digest=lambda _: "sha256:x"))
    with pytest.raises(Infrastructure, match="the engine environment engine changed"):
        unharmed(other, CANDIDATE, {})


def test_files_that_came_or_went_are_named_and_compiled_ones_may_come_but_not_change():
    one, two = (1, 1, 1, 1), (1, 1, 1, 2)
    before = {"a": one, "__pycache__/b.pyc": one}
    after = {"a": one, "__pycache__/b.pyc": two, "x/__pycache__/c.pyc": one, "d": one}
    assert touched(before, after) == ("__pycache__/b.pyc", "d")
    assert touched({"a": one}, {}) == ("a",)
    assert words(("a", "b", "c", "d", "e")) == "a, b, c and 2 more"


def test_a_name_that_is_no_folder_holds_no_files():
    assert stamps("twin-harness-0.5.9") == {}


def point(tok_s: float, **more) -> LoadPoint:
    known = {
        "workload": AGENTIC.name, "rate_rps": 1.0, "seed": 0, "window_s": 60.0, "offered": 60, "completed": 60,
        "failed": 0, "output_tok_s": tok_s, "total_tok_s": tok_s, "success_share": 1.0, "steady": True,
        "meets_slo": True,
    }  # fmt: skip
    return LoadPoint(**{**known, **more})


def test_s36_a_point_beyond_the_peak_of_what_is_held_is_void_and_the_published_figure_is_not():
    aim = target("mi355x-twin")
    real = checked(point(2626.0), AGENTIC, CANDIDATE, GLM, aim)
    assert real.void is None and real.meets_slo
    most = ceiling_rps(point(2626.0), AGENTIC, CANDIDATE, GLM, aim)
    assert most is not None and most * AGENTIC.output_tokens > 3 * 2626.0
    fake = checked(point(1.01 * most * AGENTIC.output_tokens), AGENTIC, CANDIDATE, GLM, aim)
    assert fake.void is not None and fake.void.startswith("roofline: ") and not fake.meets_slo
    assert "8 x mi355x" in fake.void
    earlier = point(1e9, void="cut: it did not end", meets_slo=False)
    assert checked(earlier, AGENTIC, CANDIDATE, GLM, aim) == earlier


def test_s36_hits_and_accepted_drafts_are_no_work_and_lift_the_bound():
    aim, base = target("mi355x-twin"), point(100.0)
    plain = ceiling_rps(base, AGENTIC, CANDIDATE, GLM, aim)
    assert ceiling_rps(point(100.0, cached_share=0.95), AGENTIC, CANDIDATE, GLM, aim) > plain
    drafting = CANDIDATE.model_copy(
        update={"flags": {**CANDIDATE.flags, "speculative-algorithm": "EAGLE", "speculative-num-draft-tokens": 4}}
    )
    assert ceiling_rps(base, AGENTIC, drafting, GLM, aim) > plain


def test_s36_where_no_peak_is_known_nothing_is_void():
    aim = target("cpu")
    assert ceiling_rps(point(1.0), AGENTIC, CANDIDATE, MODEL, aim) is None
    assert checked(point(1e9), AGENTIC, CANDIDATE, MODEL, aim).void is None
