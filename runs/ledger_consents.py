"""Consents in the ledger: who allowed or took back what, when, for which revision. Nothing is ever changed."""

from __future__ import annotations

from day0.runs import tables
from day0.runs.consents import Consent, ConsentKind
from day0.runs.database import reading
from day0.runs.ledger_patches import PatchReads
from day0.runs.ledger_rows import read, to_json
from sqlalchemy import Connection, func, insert, select


class ConsentReads(PatchReads):
    """What the ledger answers about consents."""

    def consents(self) -> tuple[Consent, ...]:
        """Every one that was given or withdrawn, in order."""
        c = tables.consents
        with reading(self.engine) as db:
            rows = db.execute(select(c).order_by(c.c.number)).all()
        return tuple(read(Consent, row.data, f"consent {row.number}") for row in rows)

    def consented(self, revision: str) -> frozenset[ConsentKind]:
        """What is allowed for a revision now: the last word on each kind counts."""
        last = {consent.kind: consent.given for consent in self.consents() if consent.revision == revision}
        return frozenset(kind for kind, given in last.items() if given)


def add(db: Connection, consent: Consent) -> None:
    """Appends one, within a transaction of the only writer."""
    c = tables.consents
    last = db.execute(select(func.max(c.c.number))).scalar() or 0
    db.execute(insert(c).values(number=last + 1, data=to_json(consent)))


__all__ = ["ConsentReads", "add"]
