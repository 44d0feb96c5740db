"""Real failures of a real SGLang server on this machine's processor, each classified with its evidence line.

Needs `day0 engine install cpu` in $DAY0_HOME.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from day0.runs.candidate import Candidate
from day0.runs.engine_facts import EngineFacts
from day0.runs.errors import CandidateFailed, DiskFull, Refused
from day0.runs.workload import FlagValue, MeasureRules, Target
from day0.sandboxes.local import LocalNode
from day0.sandboxes.spec import SandboxSpec
from day0.tools.engines.sglang import Sglang
from day0.tools.environments import EngineHome
from day0.tools.serve import Server, serve

from tests.engine.served import nothing_is_left

pytestmark = pytest.mark.timeout(300)
RULES = MeasureRules(point_s=8, min_requests=1, p95_multiples=0, max_points=3, max_pairs=2, stability_s=0)
FLAGS: dict[str, FlagValue] = {
    "device": "cpu",
    "attention-backend": "torch_native",
    "dtype": "float32",
    "sampling-backend": "pytorch",
    "mem-fraction-static": 0.1,
    "max-total-tokens": 4096,
}
TARGET = Target(
    name="t",
    kind="local",
    accelerator="cpu",
    stall_s=45,
    boot_stall_s=90,
    boot_cap_s=240,
    measure=RULES,
    workload="w",
)
CORES = (0,) if (os.cpu_count() or 1) > 1 else ()


class World:
    """Boots candidates with one change each."""

    def __init__(self, node: LocalNode, engines: EngineHome, facts: EngineFacts, model: Path) -> None:
        self.node, self.engines, self.facts, self.model = node, engines, facts, model

    @contextmanager
    def boot(self, *, model: Path | None = None, node: object = None, **flags: FlagValue) -> Iterator[Server]:
        named = {name.replace("_", "-"): value for name, value in flags.items()}
        candidate = Candidate(
            engine="sglang",
            build=self.engines.build,
            model=str(model or self.model),
            revision="r",
            flags={**FLAGS, **named},
        )
        spec = SandboxSpec(
            role="server", environment=self.engines.engine, attempt="t.1", cores=CORES, env={"OMP_NUM_THREADS": "1"}
        )
        chosen: LocalNode = node or self.node  # type: ignore[assignment]
        with serve(chosen, spec, Sglang(), candidate, self.facts, TARGET) as server:
            yield server

    def fails(self, **change: object) -> CandidateFailed:
        with pytest.raises(CandidateFailed) as failed, self.boot(**change):  # type: ignore[arg-type]
            pytest.fail("it became ready")
        nothing_is_left()
        return failed.value


@pytest.fixture(scope="module")
def world(node: LocalNode, engines: EngineHome, facts: EngineFacts, model: Path) -> World:
    return World(node, engines, facts, model)


def test_facts_of_the_installed_build(facts: EngineFacts) -> None:
    assert facts.version == "0.5.23"
    assert 480 < len(facts.flags) < 600
    dtype, size = facts.flag("dtype"), facts.flag("tensor-parallel-size")
    assert dtype is not None and "float32" in dtype.choices
    assert size is not None and (size.name, size.kind, size.default) == ("tp-size", "int", "1")
    backend = facts.flag("attention-backend")
    assert backend is not None and {"torch_native", "torch_grouped"} <= set(backend.choices)
    assert facts.packages["torch"].startswith("2.13.0")
    assert all(flag.takes_value or flag.kind in ("switch", "") for flag in facts.flags)


def test_s60_a_checkpoint_that_brings_code_fails_without_it_having_run(world: World, tmp_path: Path) -> None:
    bad, ran = tmp_path / "bad", tmp_path / "ran"
    shutil.copytree(world.model, bad)
    config = json.loads((bad / "config.json").read_text())
    names = {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil", "AutoTokenizer": ["evil.Evil", None]}
    config |= {"model_type": "evil", "auto_map": names}
    (bad / "config.json").write_text(json.dumps(config))
    (bad / "evil.py").write_text(f"open({str(ran)!r}, 'w').write('ran')")
    failed = world.fails(model=bad)
    assert (failed.failure, failed.issue) == ("missing_model_support", "checkpoint-brings-code")
    assert "contains custom code" in failed.evidence
    assert not ran.exists()


def test_attention_backend_triton_on_a_processor(world: World) -> None:
    failed = world.fails(attention_backend="triton")
    assert (failed.failure, failed.issue) == ("unsupported_arch", "cpu-triton-no-driver")
    assert failed.evidence == "RuntimeError: 0 active drivers ([]). There should only be one."
    assert b"Scheduler hit an exception" in failed.log


def test_an_unknown_flag_is_refused_before_and_told_by_the_engine_itself(world: World) -> None:
    candidate = Candidate(
        engine="sglang", build=world.engines.build, model="m", revision="r", flags={"attention-backnd": "triton"}
    )
    with pytest.raises(Refused, match="--attention-backend"):
        Sglang().check(candidate, world.facts)
    known = world.facts.flag("watchdog-timeout")
    assert known is not None
    # a build whose facts are wrong: the flag passes admission and the engine itself refuses it
    wrong = world.facts.model_copy(update={"flags": (*world.facts.flags, known.model_copy(update={"name": "no-such"}))})
    other = World(world.node, world.engines, wrong, world.model)
    failed = other.fails(no_such=3)
    assert (failed.failure, failed.issue) == ("bad_argument", "argument-unknown")
    assert failed.evidence.endswith("error: unrecognized arguments: --no-such 3")


def test_a_model_folder_without_config_json(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "nocfg"
    shutil.copytree(world.model, folder, ignore=shutil.ignore_patterns("config.json", "*.safetensors"))
    failed = world.fails(model=folder)
    assert (failed.failure, failed.issue) == ("bad_checkpoint", "config-json-missing")
    assert "config.json" in failed.evidence


def test_a_truncated_weight_file(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    shutil.copytree(world.model, folder)
    os.truncate(folder / "model.safetensors", 30_000_000)
    failed = world.fails(model=folder)
    assert (failed.failure, failed.issue) == ("bad_checkpoint", "weights-truncated")
    assert "SafetensorError" in failed.evidence


def test_s11_a_full_disk(world: World, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "none", str(small)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this user can't mount a small file system")
    try:
        node = LocalNode("full", small, cancel=lambda: False)
        (small / "filling").write_bytes(bytes(56 << 10))
        with pytest.raises(DiskFull) as full, world.boot(node=node):
            pytest.fail("it became ready")
        print(full.value)
        nothing_is_left()
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
