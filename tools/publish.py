"""From an approved patch to a draft pull request: one branch, one commit, one pull request, however often it is run.

What is there is read before anything is written, and read again after it. A branch that a person touched, a pull
request that a person closed, a text that a person edited stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from datetime import datetime
from typing import Literal

from day0.runs.errors import Infrastructure, Refused
from day0.runs.evidence import Evidence
from day0.runs.patches import Patch
from day0.runs.values import Frozen
from day0.sandboxes.redact import MASK
from day0.tools import publish_text
from day0.tools.forge.base import Draft, Forge, Pull
from day0.tools.patch_git import DoesNotApply
from day0.tools.publish_git import AlreadyThere, Commit, Person, Repository
from pydantic import AwareDatetime, Field

Redact = Callable[[str], str]
Status = Literal[
    "opened", "updated", "regenerated", "unchanged", "merged", "upstream", "closed", "hands_off", "stale", "refused"
]
_QUOTED = re.compile(rf"""["']{re.escape(MASK)}["']""")


class Order(Frozen):
    """One patch that a person approved."""

    patch: Patch
    approved: str = Field(description="digest of the content that was approved")
    at: AwareDatetime = Field(description="when that was")
    evidence: tuple[Evidence, ...] = ()
    pushed: tuple[str, ...] = Field(default=(), description="commits that earlier calls put on its branch")


class Pushed(Frozen):
    """Our branch has this commit now."""

    patch: str
    repository: str
    branch: str
    commit: str
    base: str


class Sent(Frozen):
    """What became of a patch.

    `stale`: it does not apply to the base any more and has to be made and verified again. `upstream`: the fix is there.
    `hands_off`, `closed`: a person decided. `refused`: it may not leave.
    """

    patch: str
    name: str
    status: Status
    repository: str = ""
    branch: str = ""
    commit: str = ""
    base: str = ""
    pull: int | None = None
    url: str = ""
    why: str = ""


class _Settled(Exception):
    """The end of a patch's way, before anything else is written."""

    def __init__(self, status: Status, why: str, pull: Pull | None = None) -> None:
        super().__init__(why)
        self.status, self.why, self.pull = status, why, pull


def publish(
    order: Order, repository: Repository, forge: Forge, *, who: Person, base: str, redact: Redact
) -> Generator[Pushed, None, Sent]:
    """Sends one patch; yields what was pushed as soon as it is. `base` is the name of the branch to change.

    Raises `Infrastructure` (the forge or the branch does not read back as written, too), `Cancelled`.
    """
    patch, branch = order.patch, publish_text.branch(order.patch)
    commit: Commit | None = None
    pull: Pull | None = None
    try:
        check(order, who, redact)
        made = yield from _branch(order, repository, forge, who, redact)
        commit, status = made
        asked = _asked(order, commit, who=who, base=base, redact=redact)
        pull, opened = _pull(forge, asked, commit)
        if opened and status != "regenerated":
            status = "opened" if opened == "opened" else "updated"
        why = "" if opened != "theirs" else "a person edited its text: it stays"
    except _Settled as end:
        status, why, pull = end.status, end.why, end.pull
    except Refused as refused:
        status, why = "refused", refused.reason
    return Sent(
        patch=patch.digest(), name=patch.name, status=status, repository=forge.name, branch=branch, why=why,
        commit=commit.sha if commit else pull.commit if pull else "", base=commit.base if commit else "",
        pull=pull.number if pull else None, url=pull.url if pull else "",
    )  # fmt: skip


def check(order: Order, who: Person, redact: Redact) -> None:
    """Raises `Refused` for what no person approved in this very form, and for what holds a secret."""
    patch = order.patch
    if order.approved != patch.digest():
        raise Refused(f"{patch.short} is not the content that was approved ({order.approved[7:19] or 'nothing was'})")
    if not publish_text.engine_of(patch)[0]:
        raise Refused("it changes more than one engine: one pull request can't hold it")
    for row in patch.diff.splitlines():
        seen = redact(row[1:])
        # code may well say `token = next(...)`; a literal in that place, or a known value anywhere, is another thing
        if row.startswith("+") and seen != row[1:] and (_QUOTED.search(seen) or _known(row[1:], redact)):
            raise Refused("the diff holds what looks like a secret: make it again without")
    for text in (publish_text.branch(patch), str(who), *patch.after):
        if redact(text) != text:
            raise Refused("a name in it looks like a secret")


def _known(row: str, redact: Redact) -> bool:
    """Whether something else than the key in front of it gives a secret away."""
    return any(redact(word) != word for word in re.split(r"[\s=:,;()\[\]{}\"']+", row) if len(word) > 5)


def _branch(
    order: Order, repository: Repository, forge: Forge, who: Person, redact: Redact
) -> Generator[Pushed, None, tuple[Commit, Status]]:
    """Our branch with the patch on the newest base. Raises `_Settled`."""
    patch, branch = order.patch, publish_text.branch(order.patch)
    pulls = forge.pulls(branch)
    _decided(pulls)
    _upstream(patch, forge)
    base, tip = repository.base(), repository.tip(branch)
    still = next((pull for pull in pulls if pull.state == "open"), None)

    def made(on: str) -> Commit:
        message = redact(publish_text.message(patch, who))
        return repository.commit(patch, on, message, who, order.at, strip=publish_text.engine_of(patch)[1])

    if tip is None and (order.pushed or still):
        raise _Settled("hands_off", "a person removed its branch", still)
    if tip is not None and tip not in order.pushed and not _ours(repository, branch, tip, made):
        raise _Settled("hands_off", "a person pushed to its branch", still)
    try:
        commit = made(base)
    except AlreadyThere:
        raise _Settled("upstream", f"the base has this change already ({base[:12]})", still) from None
    except DoesNotApply as refused:
        why = f"{refused.reason} (base {base[:12]}): make and verify it again on that source first"
        raise _Settled("stale", why, still) from None
    if tip == commit.sha:
        return commit, "unchanged"
    forge.pace.write()
    try:
        repository.push(branch, commit, instead_of=tip)
    finally:
        forge.pace.written()
    yield Pushed(patch=patch.digest(), repository=forge.name, branch=branch, commit=commit.sha, base=base)
    return commit, "regenerated" if tip else "unchanged"


def _decided(pulls: Sequence[Pull]) -> None:
    """Raises `_Settled` where people ended it."""
    if any(pull.state == "open" for pull in pulls):
        return
    for pull in pulls:
        if pull.state == "merged":
            raise _Settled("merged", "it was merged", pull)
        raise _Settled("closed", "a person closed it: it is not opened again", pull)


def _upstream(patch: Patch, forge: Forge) -> None:
    """Raises `_Settled` where the repository has, or is about to have, the pull request that the patch itself names."""
    cited = publish_text.cited(patch.upstream)
    if cited is None or cited[0].lower() != forge.name.lower():
        return
    found = forge.pull(cited[1])
    if found.state != "closed":
        raise _Settled("upstream", f"{found.state} upstream as {found.url}: no second one is opened", found)


def _ours(repository: Repository, branch: str, tip: str, made: Callable[[str], Commit]) -> bool:
    """Whether a tip is what we would make of the patch on its parent: then nobody else put it there."""
    parents = repository.parents(branch)
    if len(parents) != 1:
        return False
    try:
        return made(parents[0]).sha == tip
    except Refused:
        return False


def _asked(order: Order, commit: Commit, *, who: Person, base: str, redact: Redact) -> Draft:
    return publish_text.draft(order.patch, order.evidence, base=base, who=who, exact=commit.exact, redact=redact)


def _pull(forge: Forge, asked: Draft, commit: Commit) -> tuple[Pull, str]:
    """The one pull request, and what was done to it: `opened`, `rewritten`, `theirs` (a person's text), or nothing."""
    found = next((pull for pull in forge.pulls(asked.branch) if pull.state == "open"), None)
    done = ""
    if found is None:
        found, done = forge.open(asked), "opened"
    else:
        mine = publish_text.ours(found.body)
        if mine is None or not mine[1]:
            return found, "theirs"
        if (found.title, found.body.rstrip()) != (asked.title, asked.body.rstrip()):
            found, done = forge.rewrite(found.number, asked), "rewritten"
    if missing := tuple(label for label in asked.labels if label not in found.labels):
        try:
            forge.label(found.number, missing)
        except Refused:
            done = done or ""  # who has no rights on the repository can't label there: its people do
    if done:
        return _read_back(forge, found.number, asked, commit), done
    return found, done


def _read_back(forge: Forge, number: int, asked: Draft, commit: Commit) -> Pull:
    """Raises `Infrastructure` when the forge has something else than what was written."""
    now = forge.pull(number)
    for what, have, want in (
        ("title", now.title, asked.title),
        ("text", now.body.rstrip(), asked.body.rstrip()),
        ("branch", now.branch, asked.branch),
        ("base", now.base, asked.base),
        ("commit", now.commit, commit.sha),
        ("state", now.state, "open"),
    ):
        if have != want:
            raise Infrastructure(
                f"pull request {number}: its {what} reads back as {have[:80]!r}, not as it was written"
            )
    return now


def in_order(orders: Sequence[Order]) -> list[Order]:
    """As they were approved; of the same moment by name."""

    def key(order: Order) -> tuple[datetime, str]:
        return order.at, order.patch.name

    return sorted(orders, key=key)


__all__ = ["Order", "Pushed", "Sent", "Status", "check", "in_order", "publish"]
