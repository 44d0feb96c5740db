"""What every ledger does, whatever its database."""

import pytest
from day0.runs import tables
from day0.runs.engine_facts import EngineFacts, ModelFacts, NodeFacts
from day0.runs.errors import Conflict, Infrastructure, UserError
from day0.runs.facts import ArtifactKept, FailureClass, Knee, Pair, PairMeasured, Progress, Rung, Verdict
from day0.runs.ledger_rows import to_json
from day0.runs.schema import AttemptStatus, Comparison, RunStatus
from day0.runs.values import sha256
from sqlalchemy import event, insert


def begin(ledger, make, **change):
    """A running run with one running attempt: its ID, the attempt's ID and epoch."""
    run = ledger.submit(make.request(**change)).run
    with ledger.write(run.id) as writer:
        writer.move_run(RunStatus.RUNNING)
        attempt = writer.add_attempt(candidate=make.candidate(), proposer="baseline")
        epoch = writer.start_attempt(attempt.id, "node1")
    return run.id, attempt.id, epoch


def numbers(ledger, run):
    return [found.number for found in ledger.events(run)]


def test_a_run_is_kept_as_it_was_asked_for(ledger, make):
    request = make.request(seed=7, options={"note": "ü \u0000 \U0001f600"})
    made = ledger.submit(request).run
    assert made.id == f"r{request.key()[7:15]}-1"
    found = ledger.run(made.id)
    assert (found.request, found.status, found.spent_node_s) == (request, RunStatus.QUEUED, 0)
    assert found.created_at.utcoffset().total_seconds() == 0


def test_s07_same_request_joins(ledger, make):
    first = ledger.submit(make.request())
    second = ledger.submit(make.request(budget_hours=2))
    assert (second.run.id, second.joined, second.finished) == (first.run.id, True, False)
    other = ledger.submit(make.request(seed=1))
    assert other.run.id != first.run.id
    assert not other.joined


def test_s07_a_running_one_is_joined_even_with_again(ledger, make):
    run, *_ = begin(ledger, make)
    assert ledger.submit(make.request(), again=True).run.id == run


def test_a_finished_run_is_shown_and_again_starts_a_new_one(ledger, make):
    run, attempt, epoch = begin(ledger, make)
    with ledger.write(run) as writer:
        writer.finish_attempt(attempt, epoch, AttemptStatus.KEPT, "good")
        writer.move_run(RunStatus.DONE)
    shown = ledger.submit(make.request())
    assert (shown.run.id, shown.joined, shown.finished) == (run, False, True)
    fresh = ledger.submit(make.request(), again=True)
    assert fresh.run.id == run[:-1] + "2"
    assert ledger.attempts(fresh.run.id) == ()


def test_unknown_ids_name_the_nearest(ledger, make):
    run, attempt, _ = begin(ledger, make)
    with pytest.raises(UserError, match=f"did you mean {run}"):
        ledger.run(run[:-3] + "x-1")
    with pytest.raises(UserError, match=f"did you mean {attempt}"):
        ledger.attempt(f"{run}.12")
    with pytest.raises(UserError, match="no run r0000"):
        ledger.attempts("r0000")
    with pytest.raises(UserError, match="no run"), ledger.write("nope"):
        pass


def test_runs_come_newest_first_page_by_page(ledger, make):
    made = [ledger.submit(make.request(seed=seed)).run.id for seed in range(5)]
    first = ledger.runs(limit=2)
    second = ledger.runs(limit=10, before=first[-1].id)
    assert [run.id for run in (*first, *second)] == made[::-1]


def test_an_attempt_gathers_what_its_climb_found(ledger, make):
    run, attempt, epoch = begin(ledger, make)
    boot = Verdict(rung=Rung.BOOT, passed=True)
    with ledger.write(run) as writer:
        for fact in (make.started(), boot, make.point(), make.point(rate=2.0), make.knee(), make.ended()):
            assert writer.record(attempt, epoch, fact, node_s=12.5)
    found = ledger.attempt(attempt)
    assert found.verdicts == (boot,)
    assert [point.rate_rps for _, _, point in found.points] == [1.0, 2.0]
    assert found.knee("chat") == make.knee().knee
    assert (found.boots, found.node_s, found.status, found.node) == (1, 60, AttemptStatus.RUNNING, "node1")
    assert ledger.attempts(run) == (found,)
    assert ledger.events(run)[-1].node_s == 12.5


def test_s08_the_same_candidate_is_one_attempt(ledger, make):
    run, attempt, _ = begin(ledger, make)
    before = numbers(ledger, run)
    with ledger.write(run) as writer:
        again = writer.add_attempt(candidate=make.candidate(), proposer="llm", hypothesis="another story")
    assert (again.id, again.proposer, again.status) == (attempt, "baseline", AttemptStatus.RUNNING)
    assert numbers(ledger, run) == before


def test_s08_what_is_written_twice_stands_once(ledger, make):
    run, attempt, epoch = begin(ledger, make)
    knee = Knee(workload="chat", rate_rps=1, goodput_tok_s=48, passed_rps=1, failed_rps=2)
    pair = Pair(number=1, first="incumbent", incumbent=knee, challenger=knee, log_ratio=0)
    comparison = Comparison(
        incumbent=attempt, challenger=attempt, pairs=(pair,), gain=0, lower=-1, upper=1, better=False, method="t"
    )
    facts = (make.started(), make.knee(), Verdict(rung=Rung.BOOT, passed=True), PairMeasured(pair=pair), make.ended())

    def write():
        with ledger.write(run) as writer:
            for fact in facts:
                writer.record(attempt, epoch, fact)
            writer.add_comparison(comparison)
            writer.add_recipe("chat", "text", sha256("text"))
            writer.add_answer({"text": "log"}, key="3.1")
            writer.add_llm_call({"usd": 0.1}, key="3.1")
            writer.finish_attempt(attempt, epoch, AttemptStatus.KEPT, "good")
            writer.move_run(RunStatus.DONE, "confirmed")

    write()
    once = numbers(ledger, run)
    write()
    assert numbers(ledger, run) == once
    assert ledger.pairs(attempt) == (pair,)
    assert ledger.comparisons(run) == (comparison,)
    assert [recipe.text for recipe in ledger.recipes(run)] == ["text"]
    assert (ledger.answers(run), ledger.llm_calls(run)) == (({"text": "log"},), ({"usd": 0.1},))


def test_a_verdict_is_final(ledger, make):
    run, attempt, epoch = begin(ledger, make)
    with ledger.write(run) as writer:
        writer.record(attempt, epoch, Verdict(rung=Rung.BOOT, passed=True))
    other = Verdict(rung=Rung.BOOT, passed=False, failure=FailureClass.OOM)
    with pytest.raises(Conflict, match="verdict"), ledger.write(run) as writer:
        writer.record(attempt, epoch, other)
    assert ledger.attempt(attempt).verdict(Rung.BOOT).passed


def test_s02_an_interruption_leads_back_with_a_new_epoch_and_keeps_verdicts(ledger, make):
    run, attempt, epoch = begin(ledger, make)
    with ledger.write(run) as writer:
        writer.record(attempt, epoch, make.started())
        writer.record(attempt, epoch, Verdict(rung=Rung.BOOT, passed=True))
        assert writer.interrupt(attempt) == epoch + 1
    found = ledger.attempt(attempt)
    assert (found.status, found.epoch, found.node) == (AttemptStatus.QUEUED, epoch + 1, None)
    assert found.verdict(Rung.BOOT).passed
    assert [boot.ended.reason for boot in ledger.boots(run)] == ["lost"]
    with ledger.write(run) as writer:
        assert writer.start_attempt(attempt, "node2") == epoch + 1
        writer.record(attempt, epoch + 1, make.started(boot=found.boots + 1))
    assert [(boot.number, boot.epoch) for boot in ledger.boots(run)] == [(1, epoch), (2, epoch + 1)]


def test_s04_a_fact_of_an_old_epoch_is_dropped_and_counted(ledger, make):
    run, attempt, epoch = begin(ledger, make)
    with ledger.write(run) as writer:
        writer.interrupt(attempt)
        writer.start_attempt(attempt, "node2")
    with ledger.write(run) as writer:
        assert not writer.record(attempt, epoch, Verdict(rung=Rung.BOOT, passed=True))
        assert not writer.finish_attempt(attempt, epoch, AttemptStatus.FAILED, "late")
    found = ledger.attempt(attempt)
    assert (found.status, found.verdicts, ledger.dropped(run)) == (AttemptStatus.RUNNING, (), 2)
    with ledger.write(run) as writer:
        writer.finish_attempt(attempt, epoch + 1, AttemptStatus.KEPT, "good")
        assert not writer.record(attempt, epoch, make.ended())
    assert ledger.dropped(run) == 3


def test_a_fact_of_an_epoch_that_never_was_is_refused(ledger, make):
    run, attempt, epoch = begin(ledger, make)
    with pytest.raises(Conflict, match="no epoch"), ledger.write(run) as writer:
        writer.record(attempt, epoch + 1, Progress(text="x"))


def test_s05_age_alone_never_gives_an_attempt_away(ledger, make, clock):
    run, attempt, epoch = begin(ledger, make)
    clock.at = clock.at.replace(year=2027)
    with ledger.write(run) as writer:
        assert writer.add_attempt(candidate=make.candidate(), proposer="baseline").status == AttemptStatus.RUNNING
        assert writer.record(attempt, epoch, Verdict(rung=Rung.BOOT, passed=True))
        with pytest.raises(Conflict, match="can't go from running to running"):
            writer.start_attempt(attempt, "node2")
    assert (ledger.attempt(attempt).epoch, ledger.dropped(run)) == (epoch, 0)


def test_a_step_is_kept_whole_or_not_at_all(ledger, make):
    run, attempt, epoch = begin(ledger, make)
    before = ledger.events(run)
    with pytest.raises(RuntimeError), ledger.write(run) as writer:
        writer.spend(100)
        writer.record(attempt, epoch, make.point())
        writer.finish_attempt(attempt, epoch, AttemptStatus.KEPT, "good")
        raise RuntimeError
    assert ledger.events(run) == before
    assert (ledger.run(run).spent_node_s, ledger.attempt(attempt).status) == (0, AttemptStatus.RUNNING)
    with ledger.write(run) as writer:
        writer.spend(1)
    assert numbers(ledger, run) == [*range(1, len(before) + 2)]


def test_a_thread_has_one_transaction_at_a_time(ledger, make):
    run, *_ = begin(ledger, make)
    with ledger.write(run) as writer:
        writer.spend(1)
        with pytest.raises(Conflict, match="already writing"), ledger.write(run):
            pass
        with pytest.raises(Conflict, match="already writing"):
            ledger.submit(make.request(seed=9))
    assert ledger.run(run).spent_node_s == 1


def test_every_change_of_a_run_tells_its_story(ledger, make):
    run, attempt, epoch = begin(ledger, make)
    with ledger.write(run) as writer:
        writer.set_round(3)
        writer.set_baseline(attempt)
        writer.set_leader(attempt)
        writer.set_incumbent(attempt)
        writer.spend(1.5)
        writer.spend(2)
        writer.finish_attempt(attempt, epoch, AttemptStatus.DISCARDED, "slower")
        refused = writer.add_attempt(candidate=make.candidate(1), proposer="llm", parent=attempt, expected_gain=0.1)
        writer.refuse_attempt(refused.id, "banned flag")
    found = ledger.run(run)
    assert (found.round, found.baseline, found.leader, found.incumbent) == (3, attempt, attempt, attempt)
    assert found.spent_node_s == 3.5
    assert [event.kind for event in ledger.events(run)] == [
        *("submitted", "run_moved", "attempt_added", "attempt_started", "round", "baseline", "leader", "incumbent"),
        *("spent", "spent", "attempt_finished", "attempt_added", "attempt_refused"),
    ]
    assert ledger.events(run, after=11)[0].data["parent"] == attempt
    assert ledger.attempt(refused.id).reason == "banned flag"


def test_pointing_at_a_strangers_attempt_is_refused(ledger, make):
    run, *_ = begin(ledger, make)
    _, other, _ = begin(ledger, make, seed=1)
    with pytest.raises(Conflict, match="has no attempt"), ledger.write(run) as writer:
        writer.set_leader(other)


def test_s12_a_raised_budget_goes_on(ledger, make):
    run, attempt, epoch = begin(ledger, make, budget_hours=1)
    with ledger.write(run) as writer:
        writer.spend(3700)
        writer.finish_attempt(attempt, epoch, AttemptStatus.KEPT, "good")
        writer.move_run(RunStatus.NO_WINNER, "budget")
    with pytest.raises(UserError, match="give it more with --budget-hours"):
        ledger.resume(run)
    assert ledger.run(run).status == RunStatus.NO_WINNER
    resumed = ledger.resume(run, budget_hours=2, deadline_s=100)
    assert (resumed.status, resumed.request.budget_hours, resumed.request.deadline_s) == (RunStatus.QUEUED, 2, 100)
    assert (resumed.key, resumed.finished_at, resumed.spent_node_s) == (ledger.run(run).key, None, 3700)


def test_s13_retry_keeps_what_is_done(ledger, make):
    run, attempt, epoch = begin(ledger, make)
    with ledger.write(run) as writer:
        writer.record(attempt, epoch, Verdict(rung=Rung.BOOT, passed=True))
        writer.finish_attempt(attempt, epoch, AttemptStatus.KEPT, "good")
        writer.move_run(RunStatus.FAILED, "node lost")
    before = ledger.attempts(run)
    assert ledger.resume(run).id == run
    assert ledger.attempts(run) == before


def test_resume_of_a_run_whose_request_runs_again_elsewhere(ledger, make):
    run, *_ = begin(ledger, make)
    with ledger.write(run) as writer:
        writer.move_run(RunStatus.FAILED, "node lost")
    fresh = ledger.submit(make.request(), again=True).run.id
    with pytest.raises(UserError, match=fresh):
        ledger.resume(run)


def test_s56_finished_work_is_there_when_time_is_over(ledger, make):
    run, attempt, epoch = begin(ledger, make)
    kept = ArtifactKept(name="tuned-table.csv", data=b"rows", stored=sha256(b"rows"))
    with ledger.write(run) as writer:
        writer.record(attempt, epoch, make.started())
        writer.record(attempt, epoch, kept)
        writer.finish_attempt(attempt, epoch, AttemptStatus.CANCELLED, "deadline")
        writer.record(attempt, epoch, make.ended())  # what the clean-up still finds
        writer.record(attempt, epoch, kept.model_copy(update={"name": "server.log"}))
        writer.move_run(RunStatus.CANCELLED, "deadline")
    artifacts = ledger.facts(run, "artifact", attempt=attempt)
    assert [(found.data["name"], found.data["stored"]) for found in artifacts] == [
        ("tuned-table.csv", sha256(b"rows")),
        ("server.log", sha256(b"rows")),
    ]
    assert "rows" not in str(artifacts)


def test_raw_output_must_be_stored_before_its_fact(ledger, make):
    run, attempt, epoch = begin(ledger, make)
    with pytest.raises(Conflict, match="artifact store"), ledger.write(run) as writer:
        writer.record(attempt, epoch, ArtifactKept(name="server.log", data=b"x"))


def test_a_finished_attempt_takes_no_verdict(ledger, make):
    for seed, status in enumerate((AttemptStatus.DISCARDED, AttemptStatus.FAILED, AttemptStatus.VOID)):
        run, attempt, epoch = begin(ledger, make, seed=seed)
        with ledger.write(run) as writer:
            writer.finish_attempt(attempt, epoch, status, "over")
        for fact in (Verdict(rung=Rung.CONFIRM, passed=True), make.point(), make.started()):
            with pytest.raises(Conflict, match=f"ended as {status}"), ledger.write(run) as writer:
                writer.record(attempt, epoch, fact)


def test_a_kept_attempt_is_confirmed_and_replayed_but_not_judged_again(ledger, make):
    run, attempt, epoch = begin(ledger, make)
    with ledger.write(run) as writer:
        writer.finish_attempt(attempt, epoch, AttemptStatus.KEPT, "good")
        for fact in (make.started(), make.ended(), Verdict(rung=Rung.CONFIRM, passed=True)):
            writer.record(attempt, epoch, fact)
        writer.record(attempt, epoch, Verdict(rung=Rung.REPLAY, passed=True))
    with pytest.raises(Conflict, match="is over"), ledger.write(run) as writer:
        writer.record(attempt, epoch, Verdict(rung=Rung.ACCURACY, passed=True))


def test_a_recipe_must_match_its_digest(ledger, make):
    run, *_ = begin(ledger, make)
    with pytest.raises(Conflict, match="digest"), ledger.write(run) as writer:
        writer.add_recipe("chat", "text", sha256("other"))


def test_facts_of_engine_model_and_node_outlive_their_run(ledger, make):
    run, *_ = begin(ledger, make)
    engine = EngineFacts(engine="sglang", build="b1", version="0.5.23", flags=())
    model = ModelFacts(
        model="tiny", revision="r1", architecture="Llama", layers=2, hidden=8, heads=2, kv_heads=2, head_dim=4,
        vocab=100, context=512,
    )  # fmt: skip
    node = NodeFacts(name="n1", cores=2)
    assert (ledger.facts_engine("b1"), ledger.facts_model("tiny", "r1"), ledger.facts_node("n1")) == (None, None, None)
    for _ in range(2):
        with ledger.write(run) as writer:
            writer.keep_engine(engine)
            writer.keep_model(model)
            writer.keep_node(node)
    assert (ledger.facts_engine("b1"), ledger.facts_model("tiny", "r1"), ledger.facts_node("n1")) == (
        engine,
        model,
        node,
    )
    assert [found.kind for found in ledger.events(run)[-3:]] == ["engine_facts", "model_facts", "node_facts"]
    with ledger.write(run) as writer:
        writer.keep_node(node.model_copy(update={"cores": 3}))
    assert ledger.facts_node("n1").cores == 3


HOSTILE = ["cposix\nsystem\n(S'touch /tmp/x'\ntR.", '{"rung": "boot"}', '{"__reduce__": ["os.system", "x"]}', "", "[]"]


def test_s10_a_row_that_someone_altered_is_named_and_nothing_runs(ledger, make):
    for seed, data in enumerate(HOSTILE):
        run, attempt, epoch = begin(ledger, make, seed=seed)
        with ledger.engine.begin() as db:
            row = {"run": run, "number": 99, "at": "2026-01-01T00:00:00.000000Z", "attempt": attempt, "epoch": epoch}
            db.execute(insert(tables.events).values(**row, kind="verdict", data=data))
        with pytest.raises(Infrastructure, match=f"damaged at event 99 of run {run}"):
            ledger.attempts(run)
        assert ledger.run(run).status == RunStatus.RUNNING


def test_s10_a_status_that_is_none_is_named(ledger, make):
    run, *_ = begin(ledger, make)
    with ledger.engine.begin() as db:
        copy = dict(db.execute(tables.runs.select()).mappings().one()) | {"id": "r0-1", "key": "k", "status": "weird"}
        db.execute(insert(tables.runs).values(**copy))
    with pytest.raises(Infrastructure, match="damaged at run r0-1"):
        ledger.run("r0-1")
    with pytest.raises(Infrastructure, match=r"damaged at run r0-1.*weird"), ledger.write("r0-1"):
        pass
    assert ledger.run(run).status == RunStatus.RUNNING


def test_a_boot_ends_only_after_it_began(ledger, make):
    run, attempt, epoch = begin(ledger, make)
    with pytest.raises(Conflict, match="boot 1 was never started"), ledger.write(run) as writer:
        writer.record(attempt, epoch, make.ended())


def test_text_that_no_database_holds_is_replaced(ledger, make):
    run, attempt, _ = begin(ledger, make)
    with ledger.write(run) as writer:
        writer.event("note", {"text": "a\x00b\udc80c"}, attempt=attempt)
        writer.move_run(RunStatus.FAILED, "nul \x00 and \ud800")
    assert ledger.run(run).reason == "nul \N{REPLACEMENT CHARACTER} and ?"
    assert "a" in ledger.events(run)[-2].data["text"]


def test_reading_all_attempts_takes_two_queries_however_many(ledger, make):
    run = ledger.submit(make.request()).run.id
    with ledger.write(run) as writer:
        writer.move_run(RunStatus.RUNNING)
        for number in range(40):
            attempt = writer.add_attempt(candidate=make.candidate(number), proposer="playbook")
            epoch = writer.start_attempt(attempt.id, "node1")
            for fact in (make.started(), Verdict(rung=Rung.BOOT, passed=True), make.point(), make.knee(), make.ended()):
                writer.record(attempt.id, epoch, fact)
    asked = []
    event.listen(ledger.engine, "before_cursor_execute", lambda *args: asked.append(args[2]))
    attempts = ledger.attempts(run)
    assert len(attempts) == 40
    assert all(attempt.knee("chat") and attempt.verdicts for attempt in attempts)
    assert len([statement for statement in asked if statement.startswith("SELECT")]) == 2


def test_json_columns_are_canonical(make):
    assert to_json(make.candidate()) == make.candidate().canonical()
