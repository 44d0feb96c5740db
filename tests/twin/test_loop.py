"""Whole runs over the scripted engine in this process, in virtual time."""

import json
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from day0.agent import prompts, replaying_llm, report, scripted, show, story
from day0.agent.controller import Controller, Interrupted
from day0.agent.graph import BODIES, graph_picture
from day0.agent.settings import load
from day0.runs.errors import Infrastructure, LostLease
from day0.runs.facts import Fact, PairMeasured, Rung, RungStarted, Verdict
from day0.runs.ledger import Ledger
from day0.runs.queue import ControllerLock, request_cancel
from day0.runs.schema import AttemptStatus, Run, RunRequest, RunStatus
from day0.runs.workload import MeasureRules, Slo, Target, Workload
from day0.sandboxes.simulated.sglang import Performance, World, play
from day0.tools.revision import revision_of

RULES = MeasureRules(
    point_s=8.0, min_requests=8, p95_multiples=0.0, max_points=3, max_pairs=2, stability_s=0.0, short=True
)
TARGET = Target(
    name="scripted", kind="twin", accelerator="cpu", base_flags={"device": "cpu"}, server_cores=(0,),
    harness_cores=(1,), stall_s=60.0, boot_stall_s=60.0, boot_cap_s=600.0, measure=RULES, workload="tiny",
)  # fmt: skip
WORKLOAD = Workload(
    name="tiny", input_tokens=64, output_tokens=16, prefixes=2, cached_share=0.5, slo=Slo(ttft_ms=600.0, tpot_ms=60.0)
)


@dataclass
class Bench:
    """A home with a model, and a controller over scripted nodes."""

    home: Path
    model: Path
    ledger: Ledger
    lock: ControllerLock
    world: World = field(default_factory=World)
    nodes: int = 1
    heard: Callable[[str, str, Fact], None] = lambda run, attempt, fact: None

    def request(self, **changes: Any) -> RunRequest:
        given: dict[str, Any] = {
            "model": str(self.model), "revision": revision_of(self.model, self.home), "target": TARGET,
            "workloads": (WORKLOAD,), "policy": "playbook", "max_attempts": 1,
        }  # fmt: skip
        return RunRequest(**given | changes)

    def submit(self, **changes: Any) -> str:
        return self.ledger.submit(self.request(**changes), again=True).run.id

    def work(self, run_id: str) -> Run:
        pool = partial(scripted.pool, world=self.world, count=self.nodes)
        return Controller(load(), self.ledger, self.lock, self.heard, pool, scripted.parts).work(run_id)


@pytest.fixture
def bench(home: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Its home lies in memory where that is possible: hundreds of commits, each with an fsync."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as place:
        monkeypatch.setenv("DAY0_HOME", place)
        yield from opened(Path(place), model)


def opened(home: Path, model: Path) -> Iterator[Bench]:
    sums = [{"prompt": f"{i}+{i + 3}=", "answer": str(2 * i + 3)} for i in range(40)]
    (model / "day0-task.jsonl").write_text("".join(json.dumps(s) + "\n" for s in sums))
    settings = load()
    ledger, lock = Ledger.open(settings.database), ControllerLock(settings.database)
    assert lock.acquire()
    yield Bench(home, model, ledger, lock)
    lock.release()
    ledger.close()


def test_a_run_finds_confirms_and_replays_a_winner(bench: Bench) -> None:
    run = bench.work(bench.submit(max_attempts=2))
    assert run.status == RunStatus.DONE, run.reason
    told = show.summary(bench.ledger, run.id)
    (won,) = told["winners"]
    assert won["gain_lower"] > 0
    assert won["replayed"] is True
    assert {f["name"] for f in won["figures"]} >= {"knee", "output", "ttft"}
    base, best = bench.ledger.attempts(run.id)[:2]
    assert [v.rung for v in base.verdicts] == [Rung.PREPARE, Rung.BOOT, Rung.ANSWER, Rung.ACCURACY, Rung.MEASURE]
    assert [v.rung for v in best.verdicts][:6] == [
        Rung.PREPARE, Rung.BOOT, Rung.ANSWER, Rung.SCREEN, Rung.ACCURACY, Rung.MEASURE,
    ]  # fmt: skip
    assert best.status == AttemptStatus.KEPT
    assert told["orchestration"]["share"] is not None


def test_the_default_policy_gives_the_defaults_a_recipe(bench: Bench) -> None:
    run = bench.work(bench.submit(policy="default"))
    assert run.status == RunStatus.DONE, run.reason
    (attempt,) = bench.ledger.attempts(run.id)
    assert show.summary(bench.ledger, run.id)["winners"][0]["attempt"] == attempt.id
    assert "gain: null" in bench.ledger.recipes(run.id)[0].text


def test_s34_fast_but_wrong_is_never_kept(bench: Bench) -> None:
    def lossy(flags: Mapping[str, Any]) -> Performance:
        return Performance(4.0, right=0.2) if flags["dtype"] == "float32" else play(flags)

    bench.world = World(lossy)
    run = bench.work(bench.submit(max_attempts=2))
    wrong = [a for a in bench.ledger.attempts(run.id) if a.candidate.flags.get("dtype") == "float32"]
    assert wrong
    assert all(a.status == AttemptStatus.FAILED for a in wrong)
    assert all("accuracy_wrong_output" in a.reason for a in wrong)


def test_s48_throughput_up_latency_over_the_limit_is_refused_by_the_slo(bench: Bench) -> None:
    def slow(flags: Mapping[str, Any]) -> Performance:
        return Performance(9.0, ttft_ms=900.0) if flags["dtype"] == "float32" else play(flags)

    bench.world = World(slow)
    run = bench.work(bench.submit())
    tried = bench.ledger.attempts(run.id)[1]
    assert (tried.status, tried.verdicts[-1].rung) == (AttemptStatus.DISCARDED, Rung.SCREEN)


def test_nothing_works_is_exit_1(bench: Bench) -> None:
    bench.world = World(lambda flags: Performance(2.0, right=0.0))
    run = bench.work(bench.submit())
    assert run.status == RunStatus.NO_WINNER
    assert "no configuration works" in run.reason


def test_s02_a_lost_climb_goes_back_with_a_new_epoch_and_keeps_its_verdicts(bench: Bench) -> None:
    lost: list[str] = []

    def fail_once(flags: Mapping[str, Any]) -> Performance:
        if flags["dtype"] == "float32" and not lost:
            lost.append("once")
            raise Infrastructure("the disk went away")
        return play(flags)

    bench.world = World(fail_once)
    run = bench.work(bench.submit())
    attempt = bench.ledger.attempts(run.id)[1]
    assert (attempt.epoch, attempt.status) == (1, AttemptStatus.KEPT)
    assert run.status == RunStatus.DONE


def test_s23_three_interruptions_fail_the_run_never_the_candidate(bench: Bench) -> None:
    def always(flags: Mapping[str, Any]) -> Performance:
        raise Infrastructure("the disk went away")

    bench.world = World(always)
    run_id = bench.submit()
    with pytest.raises(Infrastructure, match="3 times"):
        bench.work(run_id)
    run = bench.ledger.run(run_id)
    assert run.status == RunStatus.FAILED
    (attempt,) = bench.ledger.attempts(run_id)
    assert attempt.status == AttemptStatus.QUEUED
    assert all(v.passed for v in attempt.verdicts)
    bench.world = World()
    bench.ledger.resume(run_id)
    assert bench.work(run_id).status == RunStatus.DONE


def test_s06_cancel_stops_the_run(bench: Bench) -> None:
    run_id = bench.submit(max_attempts=3)

    def heard(run: str, attempt: str, fact: Fact) -> None:
        if isinstance(fact, RungStarted) and fact.rung == Rung.ACCURACY:
            other = Ledger.open(load().database)
            thread = threading.Thread(target=request_cancel, args=(other, run_id))
            thread.start()
            thread.join()
            other.close()

    bench.heard = heard
    run = bench.work(run_id)
    assert run.status == RunStatus.CANCELLED
    assert bench.ledger.attempts(run_id)[0].status == AttemptStatus.QUEUED


def test_s12_s13_a_retry_searches_on_and_repeats_nothing(bench: Bench) -> None:
    run_id = bench.submit(max_attempts=1)
    bench.work(run_id)
    before = bench.ledger.attempts(run_id)
    verdicts = len(bench.ledger.facts(run_id, "verdict"))
    bench.ledger.resume(run_id, max_attempts=2)
    run = bench.work(run_id)
    after = bench.ledger.attempts(run_id)
    assert run.status == RunStatus.DONE
    assert len(after) == len(before) + 1
    assert [a.verdicts for a in after[: len(before)]] == [a.verdicts for a in before]
    assert len(bench.ledger.facts(run_id, "verdict")) > verdicts
    assert len(bench.ledger.facts(run_id, "pair")) == 2


@pytest.mark.parametrize("limit", [{"budget_hours": 1070 / 3600}, {"deadline_s": 1070.0}], ids=["budget", "deadline"])
def test_s53_a_limit_ends_the_search_and_confirm_and_replay_still_fit_in(bench: Bench, limit: dict[str, float]) -> None:
    budget_s = 1070.0
    run = bench.work(bench.submit(max_attempts=50, **limit))
    assert run.status == RunStatus.DONE, run.reason
    told = show.summary(bench.ledger, run.id)
    assert told["search_ended"]["status"] == "budget"
    events = bench.ledger.events(run.id, limit=100_000)
    end = next(e.number for e in events if e.kind == "search_ended")
    searched = sum(float(e.data["node_s"]) for e in events if e.kind == "spent" and e.number < end)
    attempts = bench.ledger.attempts(run.id)
    assert len(attempts) > 2
    assert budget_s - searched > 2 * max(a.node_s for a in attempts[2:]), "it was not used up: the rest was reserved"
    assert searched < run.spent_node_s <= budget_s, "the closing was paid from what was left, and it sufficed"
    (won,) = told["winners"]
    assert (won["attempt"], won["pairs"], won["replayed"]) == (run.leader, RULES.max_pairs, True)


def test_two_nodes_climb_at_once(bench: Bench) -> None:
    bench.nodes = 2
    run = bench.work(bench.submit(max_attempts=3))
    assert run.status == RunStatus.DONE, run.reason
    nodes = {a.node for a in bench.ledger.attempts(run.id)}
    assert nodes == {"scripted-0", "scripted-1"}


def test_two_workloads_have_a_winner_and_a_recipe_each(bench: Bench) -> None:
    other = WORKLOAD.model_copy(update={"name": "longer", "output_tokens": 24})
    run = bench.work(bench.submit(workloads=(WORKLOAD, other)))
    assert run.status == RunStatus.DONE, run.reason
    assert {r.workload for r in bench.ledger.recipes(run.id)} == {"tiny", "longer"}


def test_verdicts_are_told_as_they_happen(bench: Bench) -> None:
    seen: list[tuple[Rung, int]] = []

    def heard(run: str, attempt: str, fact: Fact) -> None:
        if isinstance(fact, Verdict):
            seen.append((fact.rung, len(bench.ledger.facts(run, "verdict"))))

    bench.heard = heard
    bench.work(bench.submit(policy="default"))
    assert [count for _, count in seen] == list(range(1, len(seen) + 1))


def test_the_picture_is_drawn_from_the_graph() -> None:
    picture = graph_picture()
    assert picture.startswith("---") or "graph" in picture
    for name in BODIES:
        assert name in picture
    assert "decide -.-> confirm" in picture or "decide -. " in picture


def once(rung: Rung, act: Callable[[], None]) -> Callable[[str, str, Fact], None]:
    """Acts when a rung is first climbed."""
    done: list[Rung] = []

    def heard(run: str, attempt: str, fact: Fact) -> None:
        if isinstance(fact, RungStarted) and fact.rung == rung and not done:
            done.append(rung)
            act()

    return heard


def test_ctrl_c_leaves_nothing_running_and_resume_goes_on(bench: Bench) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    run_id = bench.submit(policy="default")
    bench.heard = once(Rung.MEASURE, stop)
    with pytest.raises(Interrupted, match=f"day0 resume {run_id}") as told:
        bench.work(run_id)
    assert told.value.exit_code == 3
    assert bench.ledger.run(run_id).status == RunStatus.QUEUED
    (attempt,) = bench.ledger.attempts(run_id)
    assert (attempt.status, attempt.epoch) == (AttemptStatus.QUEUED, 1)
    before = len(attempt.verdicts)
    assert bench.work(run_id).status == RunStatus.DONE
    assert len(bench.ledger.attempts(run_id)[0].verdicts) > before


@pytest.mark.parametrize("more", [{}, {"max_attempts": 2}])
def test_s12_a_run_stopped_while_it_confirms_goes_on_there_or_searches_on_with_more(
    bench: Bench, more: dict[str, int]
) -> None:
    stopped: list[str] = []

    def heard(run: str, attempt: str, fact: Fact) -> None:
        if isinstance(fact, PairMeasured) and not stopped:
            stopped.append(attempt)
            raise KeyboardInterrupt

    run_id = bench.submit(max_attempts=1)
    bench.heard = heard
    with pytest.raises(Interrupted):
        bench.work(run_id)
    before = len(bench.ledger.attempts(run_id))
    bench.ledger.resume(run_id, **more)
    run = bench.work(run_id)
    assert run.status == RunStatus.DONE, run.reason
    assert len(bench.ledger.attempts(run_id)) == before + len(more)
    assert len([p for p in bench.ledger.facts(run_id, "pair") if p.attempt == stopped[0]]) == 2
    assert [r.workload for r in bench.ledger.recipes(run_id)]


def test_s12_a_failed_confirmation_resumed_with_raised_limits_searches_on(bench: Bench) -> None:
    def heard(run: str, attempt: str, fact: Fact) -> None:
        if isinstance(fact, PairMeasured):
            raise Infrastructure("the disk went away")

    bench.heard = heard
    run_id = bench.submit()
    with pytest.raises(Infrastructure):
        bench.work(run_id)
    bench.heard = lambda run, attempt, fact: None
    bench.ledger.resume(run_id, max_attempts=2)
    run = bench.work(run_id)
    assert run.status == RunStatus.DONE, run.reason
    assert len(bench.ledger.attempts(run_id)) == 3


def test_s04_a_controller_that_lost_its_lock_stops_and_writes_no_more(bench: Bench) -> None:
    (file,) = bench.home.glob("*.controller")
    run_id = bench.submit(policy="default")

    def replaced() -> None:
        file.unlink()
        file.touch()

    bench.heard = once(Rung.ACCURACY, replaced)
    with pytest.raises(LostLease):
        bench.work(run_id)
    assert bench.ledger.run(run_id).status == RunStatus.RUNNING
    assert bench.ledger.attempts(run_id)[0].verdict(Rung.MEASURE) is None


@pytest.fixture
def endpoint() -> Iterator[tuple[str, list[Any]]]:
    """An OpenAI-compatible server that always wants another dtype; what it was asked."""
    asked: list[Any] = []
    call = {
        "name": "try_candidate",
        "arguments": '{"parent": "PARENT", "flags": {"dtype": "DTYPE"}, "hypothesis": "h", "expected_gain": 0.1}',
    }

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append(body)
            parent = re.findall(r"\b(r[0-9a-f]{8}-\d+\.1)\b", json.dumps(body))[0]
            text = call["arguments"].replace("PARENT", parent).replace("DTYPE", ("float32", "float16")[len(asked) % 2])
            calls = [{"id": "c", "type": "function", "function": {**call, "arguments": text}}]
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "tool_calls": calls}}
            data = json.dumps({
                "id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice],
                "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 0, "total_tokens": 1_000_000},
            }).encode()  # fmt: skip
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1", asked
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(
    "cap", [{"LLM_MAX_CALLS": "1"}, {"LLM_BUDGET_USD": "2", "LLM_USD_IN": "2", "LLM_USD_OUT": "2"}]
)
def test_s53_the_llms_caps_hold_over_every_process_of_a_run(
    bench: Bench, endpoint: tuple[str, list[Any]], monkeypatch: pytest.MonkeyPatch, cap: dict[str, str]
) -> None:
    url, asked = endpoint
    for name, value in {"LLM_BASE_URL": url, "LLM_MODEL": "m", **cap}.items():
        monkeypatch.setenv(f"DAY0_{name}", value)

    def heard(run: str, attempt: str, fact: Fact) -> None:
        booting = isinstance(fact, RungStarted) and fact.rung == Rung.BOOT
        if booting and attempt.rpartition(".")[2] in {"2", "3"} and attempt not in stopped:
            stopped.append(attempt)
            raise KeyboardInterrupt

    stopped: list[str] = []
    run_id = bench.submit(policy="auto", max_attempts=60)
    bench.heard = heard
    for _ in range(2):
        with pytest.raises(Interrupted):
            bench.work(run_id)
        assert len(asked) == 1, "the cap was used up before the restart"
    run = bench.ledger.run(run_id)
    by = [a.proposer for a in bench.ledger.attempts(run_id)]
    assert by == ["baseline", "llm", "stand-in"]
    told = [e.data["proposal"]["note"] for e in bench.ledger.facts(run_id, "proposed")]
    assert any("used up" in note or "is spent" in note for note in told)
    assert [c["prompt"] for c in bench.ledger.llm_calls(run_id) if not c["error"]] == [prompts.PLAN]
    llm = show.summary(bench.ledger, run_id)["llm"]
    assert (llm["calls"], llm["stood_in"], llm["prompt_tokens"]) == (1, 1, 1_000_000)
    assert llm["usd"] == pytest.approx(2.0 if "LLM_BUDGET_USD" in cap else 0.0)
    assert "the playbook stood in for the LLM in 1 rounds" in report.page(bench.ledger, run_id)
    first = next(iter(replaying_llm.rounds(bench.ledger, run, load())))
    assert first["same_question"] and first["now"] == first["then"], "the recorded answer decides the same again"


def test_the_screened_point_is_the_first_of_the_search_on_that_boot(bench: Bench) -> None:
    run = bench.work(bench.submit(max_attempts=1))
    assert run.status == RunStatus.DONE, run.reason
    best = bench.ledger.attempts(run.id)[1]
    (boot, rung, screened), *rest = [row for row in best.points if row[1] in (Rung.SCREEN, Rung.MEASURE)]
    assert rung == Rung.SCREEN
    again = [(b, p) for b, _, p in rest if p.rate_rps == screened.rate_rps]
    assert again == [(boot, screened)], "it is not measured twice"
    assert len(rest) <= RULES.max_points + 2


def test_s55_patches_of_an_llm_that_can_not_be_made_never_end_the_search(bench: Bench) -> None:
    run_id = bench.submit(policy="llm", max_attempts=1)
    with bench.ledger.write(run_id) as writer:
        for number in range(1, 8):
            who = "llm" if number % 3 else "playbook"
            writer.event("proposed", {"round": number, "proposal": {"proposer": who}}, key=f"round:{number}")
            writer.event("admitted", {"round": number, "attempts": [], "crafts": [f"{number}:0"]})
            writer.event("crafted", {"craft": f"{number}:0", "refused": "it does not apply"})
    assert story.idle_rounds(bench.ledger, run_id) == 2, "only the playbook's own count"
