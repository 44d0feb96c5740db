"""Patches under review, and what a run made: over both databases, and from databases of earlier releases."""

import itertools

import pytest
from day0.runs.database import open_engine, parse_url, upgrade, writing
from day0.runs.errors import Conflict, Infrastructure, UserError
from day0.runs.facts import PatchMade, TableMade
from day0.runs.ledger import Ledger
from day0.runs.patches import Patch, Table
from day0.runs.values import sha256
from sqlalchemy import create_engine, text


def patch(number=0, **more):
    given = {"name": "rocm-guard", "title": "Guard a header", "author": "codemod:rocm-guard", "build": "b"}
    text_ = f"diff --git a/x{number}.h b/x{number}.h\n"
    given |= {"diff": text_, "before": {f"x{number}.h": sha256("old")}, "after": {f"x{number}.h": sha256("new")}}
    return Patch(**(given | more))


TABLE = Table(build="b", arch="gfx950", variable="AITER_CONFIG_FMOE", text="h\n1\n", rows=1, shapes=("1 x (2, 3)",))


@pytest.fixture
def run(ledger, make):
    return ledger.submit(make.request()).run.id


def test_a_patch_waits_and_the_same_content_is_one_patch(ledger, run):
    for _ in range(2):
        with ledger.write(run) as writer:
            assert writer.add_patch(patch()).status == "waiting"
            writer.add_patch(patch(1))
    assert [(r.run, r.patch, r.status) for r in ledger.patches(run)] == [
        (run, patch(), "waiting"), (run, patch(1), "waiting")
    ]  # fmt: skip
    assert [e.data["patch"] for e in ledger.facts(run, "patch_waits")] == [patch().digest(), patch(1).digest()]


@pytest.mark.parametrize("outcome", ["approved", "rejected"])
def test_s78_a_review_is_of_exactly_that_content_and_final(ledger, run, outcome):
    with ledger.write(run) as writer:
        writer.add_patch(patch())
        writer.add_patch(patch(why="another evidence"))
    for _ in range(2):
        with ledger.write(run) as writer:
            assert writer.review(patch().digest(), outcome, "looks\x00right").status == outcome
    assert [(r.status, r.reason) for r in ledger.patches(run)] == [(outcome, "looks\ufffdright"), ("waiting", "")]
    other = {"approved": "rejected", "rejected": "approved"}[outcome]
    for status, reason in ((other, ""), (outcome, "another reason")):
        with pytest.raises(Conflict, match="final"), ledger.write(run) as writer:
            writer.review(patch().digest(), status, reason)
    with ledger.write(run) as writer:
        assert writer.add_patch(patch()).status == outcome, "made again it stands where it stood"
    reviewed = ledger.facts(run, "patch_reviewed")
    assert [e.data["status"] for e in reviewed] == [outcome]


def test_what_is_no_review_is_refused(ledger, run):
    with ledger.write(run) as writer:
        writer.add_patch(patch())
    with pytest.raises(Conflict, match="no outcome"), ledger.write(run) as writer:
        writer.review(patch().digest(), "waiting", "")
    with pytest.raises(Conflict, match="no patch"), ledger.write(run) as writer:
        writer.review(patch(1).digest(), "approved", "")


def test_a_patch_is_found_by_the_beginning_of_its_digest(ledger, make, run):
    other = ledger.submit(make.request(seed=7)).run.id
    for place in (run, other):
        with ledger.write(place) as writer:
            writer.add_patch(patch())
    with ledger.write(run) as writer:
        writer.review(patch().digest(), "approved", "")
    for name in (patch().digest(), patch().short, patch().short[:6].upper()):
        assert (ledger.patch(name).run, ledger.patch(name).status) == (other, "waiting")
        assert [r.run for r in ledger.reviews(name)] == [run, other]
    for wrong in ("", "xyz!", "abc", "'; DROP TABLE patches", "%", "sha256:"):
        with pytest.raises(UserError, match="no patch ID"):
            ledger.patch(wrong)
    near = patch().short[:11] + ("0" if patch().short[11] != "0" else "1")
    with pytest.raises(UserError, match=f"did you mean {patch().short}"):
        ledger.patch(near)
    with pytest.raises(UserError, match="there is no run"):
        ledger.patches("r00000000-1")


def test_a_beginning_that_fits_two_patches_is_not_guessed(ledger, run):
    seen: dict[str, Patch] = {}
    for number in itertools.count():
        made = patch(number)
        if made.digest()[7:11] in seen:
            break
        seen[made.digest()[7:11]] = made
    with ledger.write(run) as writer:
        writer.add_patch(made)
        writer.add_patch(seen[made.digest()[7:11]])
    with pytest.raises(UserError, match="several patches begin with"):
        ledger.patch(made.digest()[7:11])


def test_s56_what_was_made_is_there_whole(ledger, run):
    with ledger.write(run) as writer:
        for fact in (PatchMade(patch=patch()), TableMade(table=TABLE), PatchMade(patch=patch(1))):
            writer.event(fact.kind, fact)
    assert ledger.made(run) == (
        {patch().digest(): patch(), patch(1).digest(): patch(1)}, {TABLE.digest(): TABLE}
    )  # fmt: skip


def test_s10_an_altered_patch_is_named_and_nothing_runs(ledger, run):
    with writing(ledger.engine) as db:
        row = {"run": run, "digest": "sha256:aaaa", "patch": '{"name": "!!"}'}
        db.execute(text("INSERT INTO patches VALUES (:run, :digest, 1, :patch, 'waiting', '')"), row)
    with pytest.raises(Infrastructure, match="damaged at patch sha256:aaaa"):
        ledger.patches(run)


TAMPERED = [
    "DELETE FROM patches",
    "UPDATE patches SET patch = '{}'",
    "UPDATE patches SET digest = 'x'",
    "UPDATE patches SET number = 9",
    "UPDATE patches SET status = 'published'",
    "INSERT INTO patches SELECT run, 'x', 2, patch, 'approved', '' FROM patches",
    "INSERT INTO patches SELECT 'nobody', digest, 1, patch, 'waiting', '' FROM patches",
]


def test_s78_the_database_refuses_what_the_rules_forbid_whoever_writes(ledger, run):
    with ledger.write(run) as writer:
        writer.add_patch(patch())
    for statement in TAMPERED:
        with pytest.raises(Conflict), writing(ledger.engine) as db:
            db.execute(text(statement))
            pytest.fail(f"taken: {statement}")
    for status in ("approved", "waiting", "rejected"):
        taken = status == "approved"
        try:
            with writing(ledger.engine) as db:
                db.execute(text(f"UPDATE patches SET status = '{status}', reason = 'said so'"))
        except Conflict:
            assert not taken
        else:
            assert taken


def test_a_database_of_the_first_release_keeps_its_runs_and_learns_patches(url, make):
    engine = create_engine(parse_url(url))
    with engine.begin() as db:
        upgrade(db, "0001")
        request, stamp = make.request(), "2026-01-01T00:00:00.000000Z"
        row = {"id": "r1-1", "key": request.key(), "request": request.canonical(), "at": stamp}
        db.execute(
            text(
                "INSERT INTO runs (id, key, request, status, reason, created_at, queued_at)"
                " VALUES (:id, :key, :request, 'queued', '', :at, :at)"
            ),
            row,
        )
    engine.dispose()
    ledger = Ledger.open(url)
    assert ledger.run("r1-1").request == request and ledger.patches("r1-1") == ()
    with ledger.write("r1-1") as writer:
        writer.add_patch(patch())
    assert len(ledger.patches("r1-1")) == 1
    ledger.close()
    open_engine(url).dispose()
