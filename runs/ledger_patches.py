"""Patches and tables in the ledger: what a run made, and where its patches stand with the people who review them.

Approval belongs to content: a patch is known by its digest, and neither its text nor a review ever changes.
"""

from __future__ import annotations

import re
from typing import Literal

from day0.runs import tables
from day0.runs.database import Row, reading
from day0.runs.errors import Conflict, UserError
from day0.runs.facts import PatchMade, TableMade
from day0.runs.ledger_reads import Reads, nearest
from day0.runs.ledger_rows import plain, read, to_json
from day0.runs.ledger_story import Story
from day0.runs.patches import Patch, Review, Table
from sqlalchemy import func, insert, select, update

Outcome = Literal["approved", "rejected"]
OUTCOMES = ("approved", "rejected")
_ID = re.compile(r"(?:sha256:)?([0-9a-f]{4,64})\Z")


def review_of(row: Row) -> Review:
    """A row of `patches`."""
    where = f"patch {row.digest} of run {row.run}"
    patch = read(Patch, row.patch, where)
    return Review(run=row.run, patch=patch, status=row.status, reason=row.reason)


class Reviewing(Story):
    """The part of a write transaction that knows patches."""

    def add_patch(self, patch: Patch) -> Review:
        """Puts a patch before a reviewer: it waits. The same content again in this run returns what stands."""
        p, digest = tables.patches, patch.digest()
        mine = select(p).where(p.c.run == self._id)
        earlier = self._db.execute(mine.where(p.c.digest == digest)).one_or_none()
        if earlier is None:
            last = self._db.execute(select(func.max(p.c.number)).where(p.c.run == self._id)).scalar() or 0
            new = {"digest": digest, "number": last + 1, "patch": to_json(patch), "status": "waiting", "reason": ""}
            self._db.execute(insert(p).values(run=self._id, **new))
            self.event("patch_waits", {"patch": digest, "name": patch.name})
            earlier = self._db.execute(mine.where(p.c.digest == digest)).one()
        return review_of(earlier)

    def review(self, digest: str, status: Outcome, reason: str = "") -> Review:
        """Ends a patch's wait. Repeated with the same outcome and reason: nothing.

        Raises `Conflict`: no such patch in this run, no outcome, already reviewed otherwise.
        """
        p = tables.patches
        mine = select(p).where(p.c.run == self._id, p.c.digest == digest)
        row = self._db.execute(mine).one_or_none()
        if row is None:
            raise Conflict(f"run {self._id} has no patch {digest}")
        if status not in OUTCOMES:
            raise Conflict(f"{status} is no outcome of a review")
        said = plain(reason)
        if (row.status, row.reason) == (status, said):
            return review_of(row)
        if row.status != "waiting":
            raise Conflict(f"patch {digest} is {row.status} already: a review is final")
        change = update(p).where(p.c.run == self._id, p.c.digest == digest).values(status=status, reason=said)
        self._db.execute(change)
        self.event("patch_reviewed", {"patch": digest, "status": status, "reason": said})
        return review_of(self._db.execute(mine).one())


class PatchReads(Reads):
    """What the ledger answers about patches and tables."""

    def patches(self, run_id: str) -> tuple[Review, ...]:
        """A run's patches in the order in which they came to review. Raises `UserError` for an unknown run."""
        p = tables.patches
        with reading(self.engine) as db:
            rows = db.execute(select(p).where(p.c.run == run_id).order_by(p.c.number)).all()
            if not rows:
                self._run_row(db, run_id)
            return tuple(review_of(row) for row in rows)

    def patch(self, digest_or_prefix: str) -> Review:
        """The patch whose digest begins so; of several runs with the same content the latest run's.

        Raises `UserError`: no ID, no such patch, several that begin so.
        """
        return self.reviews(digest_or_prefix)[-1]

    def reviews(self, digest_or_prefix: str) -> tuple[Review, ...]:
        """The same content in every run that has it, oldest run first. Raises as `patch`."""
        p, r = tables.patches, tables.runs
        asked = _ID.match(digest_or_prefix.strip().lower())
        if asked is None:
            raise UserError(
                f"{digest_or_prefix[:80]!r} is no patch ID: give at least four of its hexadecimal digits, "
                "as `day0 patches RUN` lists them"
            )
        begins = p.c.digest.startswith(f"sha256:{asked[1]}", autoescape=True)
        query = select(p).join(r, r.c.id == p.c.run).where(begins).order_by(r.c.created_at, func.length(r.c.id), r.c.id)
        with reading(self.engine) as db:
            rows = db.execute(query).all()
            if not rows:
                known = [d[7:19] for d in db.execute(select(p.c.digest).distinct().limit(500)).scalars()]
                raise UserError(f"there is no patch {asked[1][:12]}{nearest(asked[1][:12], known)}")
        digests = sorted({row.digest for row in rows})
        if len(digests) > 1:
            raise UserError(f"several patches begin with {asked[1]}: {', '.join(d[7:19] for d in digests[:5])}")
        return tuple(review_of(row) for row in rows)

    def made(self, run_id: str) -> tuple[dict[str, Patch], dict[str, Table]]:
        """Digest -> patch and digest -> table of everything that the run made, in order."""
        patches: dict[str, Patch] = {}
        made: dict[str, Table] = {}
        for row in self._events(run_id, ("patch_made", "table_made")):
            where = f"event {row.number} of run {row.run}"
            if row.kind == "patch_made":
                patch = read(PatchMade, row.data, where).patch
                patches[patch.digest()] = patch
            else:
                table = read(TableMade, row.data, where).table
                made[table.digest()] = table
        return patches, made
