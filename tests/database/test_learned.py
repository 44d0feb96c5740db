"""What runs learned of failures stays in the ledger, whichever database it is."""

from day0.runs.gained import Gained
from day0.runs.learned import Learned, read_file

LESSON = Learned(
    failure="crashed", signature="FrobError: block", example="FrobError: block 1", build="b",
    packages={"sglang": "0.5.23"}, flags={"page-size": None}, run="r1", attempt="r1.2",
)  # fmt: skip


def test_a_lesson_is_kept_once_and_outlives_its_run(ledger, make):
    run = ledger.submit(make.request()).run.id
    assert ledger.learned() == ()
    mended = LESSON.model_copy(update={"flags": {"attention-backend": "triton"}, "mended": True})
    with ledger.write(run) as writer:
        writer.keep_learned(LESSON)
        writer.keep_learned(mended)
    other = ledger.submit(make.request(seed=7)).run.id
    with ledger.write(other) as writer:
        writer.keep_learned(LESSON.model_copy(update={"attempt": "r2.9"}))
    assert sorted(ledger.learned(), key=lambda one: one.mended) == [LESSON, mended], "the first sight of it stands"
    assert LESSON.id == mended.id and LESSON.key != mended.key
    assert [e.kind for e in ledger.events(run)].count("learned_facts") == 2


def test_a_file_is_read_without_being_opened_as_a_ledger(ledger, make, tmp_path):
    run = ledger.submit(make.request()).run.id
    with ledger.write(run) as writer:
        writer.keep_learned(LESSON)
    expected = (LESSON,) if ledger.url.startswith("sqlite") else ()
    assert read_file(ledger.url) == expected
    assert read_file(f"sqlite:///{tmp_path}/none.sqlite") == ()
    (tmp_path / "odd.sqlite").write_bytes(b"no database")
    assert read_file(f"sqlite:///{tmp_path}/odd.sqlite") == ()
    assert sorted(p.name for p in tmp_path.glob("*.sqlite")) == ["odd.sqlite"] or ledger.url.startswith("sqlite")


def test_what_an_experiment_brought_outlives_its_run(ledger, make):
    run = ledger.submit(make.request()).run.id
    one = Gained(
        what="--dtype None -> float32", family="dense", accelerator="cpu", workload="chat", build="b", expected=0.1,
        measured=0.2, run=run, attempt=f"{run}.2",
    )  # fmt: skip
    with ledger.write(run) as writer:
        writer.keep_gained(one)
        writer.keep_gained(one)
    assert ledger.gained() == (one,) and ledger.learned() == ()
