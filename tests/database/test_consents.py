"""Consents in the ledger, over both databases: who, when, what; a word is never changed, only another one added."""

import pytest
from day0.runs.consents import Consent
from day0.runs.database import writing
from day0.runs.errors import Conflict
from day0.runs.ledger import utc_now
from sqlalchemy import text


def word(kind="pickle", revision="sha256:a", **more):
    return Consent(kind=kind, model="/m", revision=revision, files=("a.bin",), who="ada@node", at=utc_now(), **more)


def test_s60_s61_the_last_word_on_a_revision_counts_and_every_word_stays(ledger):
    words = (word(), word("remote-code"), word(revision="sha256:b"), word(given=False, reason="read it again"))
    for each in words:
        ledger.consent(each)
    assert ledger.consents()[-len(words) :] == words
    assert ledger.consented("sha256:a") == {"remote-code"} and ledger.consented("sha256:b") == {"pickle"}
    assert ledger.consented("sha256:c") == frozenset()


@pytest.mark.parametrize("change", ["UPDATE consents SET data = '{}'", "DELETE FROM consents"])
def test_a_consent_is_never_changed_whoever_writes(ledger, change):
    ledger.consent(word())
    with pytest.raises(Conflict, match="a consent is never changed"), writing(ledger.engine) as db:
        db.execute(text(change))
    assert ledger.consents()[-1].model == "/m"
