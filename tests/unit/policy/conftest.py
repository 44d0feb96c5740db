"""A small world for policies: a frozen view, and a node whose knee is a formula of the candidate."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from day0.agent.policy import decide
from day0.agent.policy.actions import Finish, TryCandidate
from day0.agent.policy.base import Policy, RunView
from day0.agent.policy.guard import admit
from day0.runs.candidate import Candidate
from day0.runs.engine_facts import EngineFacts, FlagSpec, ModelFacts, NodeFacts
from day0.runs.errors import Refused
from day0.runs.facts import FailureClass, Knee, Rung, Verdict
from day0.runs.schema import Attempt, AttemptStatus, RunRequest
from day0.runs.workload import MeasureRules, Slo, Target, Workload

FLAGS = Path(__file__).with_name("sglang-0.5.23-flags.txt")


def engine_facts(**capabilities: str) -> EngineFacts:
    flags = []
    for row in FLAGS.read_text().splitlines():
        if row.startswith("#"):
            continue
        name, kind, choices, aliases, neg = (row.split("\t") + [""] * 5)[:5]
        flags.append(
            FlagSpec(
                name=name,
                takes_value=kind == "value",
                choices=tuple(filter(None, choices.split(","))),
                aliases=tuple(filter(None, aliases.split(","))),
                negatable=neg == "neg",
                help=f"about {name}",
            )
        )
    return EngineFacts(
        engine="sglang", build="sha256:e", version="0.5.23", flags=tuple(flags), capabilities=capabilities
    )


MODEL = ModelFacts(
    model="tiny", revision="sha256:m", architecture="LlamaForCausalLM", model_type="llama", layers=12, hidden=512,
    heads=8, kv_heads=4, head_dim=64, vocab=128, context=2048, weight_bytes=72_000_000, parameters=36_000_000,
)  # fmt: skip
GLM = ModelFacts(
    model="amd/GLM-5.2-MXFP4", revision="abc", architecture="GlmMoeDsaForCausalLM", model_type="glm_moe_dsa",
    layers=78, hidden=6144, heads=64, kv_heads=64, head_dim=128, vocab=154880, context=1048576, experts=256,
    experts_per_token=8, shared_experts=1, kv_lora_rank=512, nextn_layers=1, quantization="quark",
    weight_bytes=399_000_000_000,
)  # fmt: skip
RULES = MeasureRules(point_s=8, min_requests=4, p95_multiples=1, max_points=3, max_pairs=2, stability_s=0, short=True)
WORK = Workload(
    name="chat",
    input_tokens=512,
    output_tokens=64,
    prefixes=2,
    cached_share=0.875,
    slo=Slo(ttft_ms=2500, tpot_ms=80, tpot_percentile=95),
)
CPU = Target(
    name="cpu", kind="local", accelerator="cpu", server_cores=(0,), harness_cores=(1,), stall_s=20, boot_stall_s=60,
    boot_cap_s=300, measure=RULES, workload="chat",
    base_flags={"device": "cpu", "attention-backend": "torch_native", "sampling-backend": "pytorch"},
    base_env={"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
)  # fmt: skip
MI355X = Target(
    name="mi355x", kind="docker", accelerator="mi355x", gpus=8, stall_s=300, boot_stall_s=1800, boot_cap_s=2400,
    measure=RULES, workload="chat", base_flags={"tp-size": 8},
)  # fmt: skip


class Node:
    """A scripted node: the knee of a candidate is a formula, noise is keyed by the candidate."""

    def __init__(self, speed: Callable[[Candidate], float], noise: float = 0.0, target: Target = CPU, **facts: object):
        self.speed, self.noise, self.target = speed, noise, target
        self.engine: EngineFacts = facts.pop("engine", None) or engine_facts(compiler="g++ 12.2.0")  # type: ignore
        self.model: ModelFacts = facts.pop("model", MODEL)  # type: ignore
        self.work: Workload = facts.pop("work", WORK)  # type: ignore
        self.attempts: list[Attempt] = []
        self.answers = ()
        self.policy_name = "playbook"
        self.fails: Callable[[Candidate], FailureClass | None] = facts.pop("fails", lambda c: None)  # type: ignore
        base = Candidate(
            engine="sglang", build="sha256:e", model="tiny", revision="sha256:m", flags=target.base_flags,
            env=target.base_env,
        )  # fmt: skip
        self.climb(base, None, "baseline")

    def request(self) -> RunRequest:
        return RunRequest(model="tiny", revision="sha256:m", target=self.target, workloads=(self.work,))

    def climb(self, candidate: Candidate, parent: str | None, proposer: str) -> Attempt:
        number = len(self.attempts) + 1
        failure = self.fails(candidate)
        verdicts = [Verdict(rung=Rung.BOOT, passed=failure is None, failure=failure, evidence="a log line")]
        knees: tuple[tuple[int, Rung, Knee], ...] = ()
        if failure is None:
            shake = random.Random(candidate.digest()).gauss(0, self.noise) if self.noise else 0.0
            rate = self.speed(candidate) * math.exp(shake)
            knee = Knee(
                workload=self.work.name, rate_rps=rate, goodput_tok_s=rate * 60, passed_rps=rate, failed_rps=rate * 1.1,
                bound_by="tpot",
            )  # fmt: skip
            knees = ((1, Rung.MEASURE, knee),)
            verdicts += [Verdict(rung=r, passed=True) for r in (Rung.ANSWER, Rung.ACCURACY, Rung.MEASURE)]
        attempt = Attempt(
            id=f"r0.{number}", run="r0", number=number, candidate=candidate, status=AttemptStatus.RUNNING,
            parent=parent, proposer=proposer, verdicts=tuple(verdicts), knees=knees, node_s=60.0,
        )  # fmt: skip
        end = decide.outcome(attempt, self.attempts, self.request(), self.noise)
        attempt = attempt.model_copy(update={"status": end.status, "reason": end.reason})
        self.attempts.append(attempt)
        return attempt

    def view(self, left: int = 100, budget_s: float = 1e6, **more: object) -> RunView:
        lead = decide.leader_of(self.attempts, self.request())
        known: dict[str, object] = {
            "run": "r0", "round": len(self.attempts), "request": self.request(), "model": self.model,
            "node": NodeFacts(name="n", cpu="Zen 4", cores=2, memory_bytes=25_000_000_000), "engine": self.engine,
            "attempts": tuple(self.attempts), "baseline": "r0.1", "leader": lead.id if lead else None,
            "noise": self.noise, "budget_left_s": budget_s, "attempts_left": left, "answers": self.answers,
        }  # fmt: skip
        return RunView(**{**known, **more})  # type: ignore[arg-type]

    def search(self, policy: Policy, attempts: int, left: int = 0) -> list[str]:
        """Runs a policy for so many attempts; returns the notes. Stops at `Finish`. `left` more are allowed."""
        notes, made = [], 0
        for _ in range(attempts * 3):
            if made >= attempts:
                break
            proposal = policy.decide(self.view(left=left + attempts - made))
            notes.append(proposal.note)
            for action in proposal.actions:
                if isinstance(action, Finish):
                    notes.append(f"finish: {action.reason}")
                    return notes
                assert isinstance(action, TryCandidate)
                candidate = admit(action, self.view(left=attempts - made))
                assert not isinstance(candidate, Refused), candidate
                self.climb(candidate, action.parent, proposal.proposer)
                made += 1
        return notes

    def best(self) -> float:
        """The leader's true speed over the baseline's."""
        lead = decide.leader_of(self.attempts, self.request())
        assert lead is not None
        return self.speed(lead.candidate) / self.speed(self.attempts[0].candidate)


def cpu_speed(candidate: Candidate) -> float:
    """Roughly how a small model on one core answers: two axes pay, two interact, several do nothing or harm."""
    flags, env = candidate.flags, candidate.env
    speed = 2.0
    speed *= {"float32": 1.20, "float16": 0.35}.get(str(flags.get("dtype", "")), 1.0)
    cap = flags.get("max-running-requests")
    speed *= 1.0 if cap is None else {2: 0.6, 4: 1.05, 8: 1.15, 16: 1.08}.get(int(cap), 1.0)
    steps = int(flags.get("num-continuous-decode-steps", 1))
    speed *= {1: 1.0, 2: 1.03, 4: 1.06, 8: 1.08}.get(steps, 1.0)
    stream = int(flags.get("stream-interval", 1))
    speed *= {1: 1.0, 4: 1.02, 8: 1.04, 16: 1.04}.get(stream, 1.03)
    if flags.get("enable-mixed-chunk"):
        speed *= 0.6
    if flags.get("disable-radix-cache"):
        speed *= 0.5
    if flags.get("enable-torch-compile"):
        speed *= 1.10 if flags.get("dtype") == "float32" else 0.98
    if "MALLOC_TRIM_THRESHOLD_" in env or "LD_PRELOAD" in env:
        speed *= 1.08
    return speed


@pytest.fixture
def make_node() -> Callable[..., Node]:
    def make(speed: Callable[[Candidate], float] = cpu_speed, noise: float = 0.01, **more: object) -> Node:
        return Node(speed, noise, **more)  # type: ignore[arg-type]

    return make


@pytest.fixture
def facts() -> Callable[..., EngineFacts]:
    return engine_facts


@pytest.fixture
def glm() -> dict[str, object]:
    """The pieces of a GPU site."""
    return {"model": GLM, "target": MI355X}


@pytest.fixture
def work() -> Workload:
    return WORK


@pytest.fixture(scope="session")
def shared_node() -> Node:
    """A node that no test changes."""
    return Node(cpu_speed)
