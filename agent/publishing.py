"""`publish`: what people approved goes to a forge, or into a folder as mails that `git am` takes.

A process of its own, and the only one that ever holds the forge's token: it is taken out of the environment before
anything else of day0 is loaded, and no sandbox, engine or run is reached from here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from day0.agent import crashpoints, story
from day0.agent.looking import say, say_json, table
from day0.agent.policy.untrusted import line
from day0.agent.settings import Settings
from day0.agent.sources import opened
from day0.runs.errors import UserError
from day0.runs.ledger import Ledger

if TYPE_CHECKING:
    from day0.sandboxes.redact import Redactor
    from day0.tools.publish import Order, Sent
    from day0.tools.publish_git import Person

TOKEN = "DAY0_FORGE_TOKEN"  # the variable's name
SENT = "patch_sent"
PUSHED = "patch_pushed"
HANDED = Path("day0-patches")
"""folder for what is handed over where no other is named"""
DONE = frozenset({"opened", "updated", "regenerated", "unchanged", "merged", "upstream"})


@dataclass(frozen=True)
class Asked:
    """The command line; None = not given."""

    patches: tuple[str, ...] = ()
    to: str | None = None
    fork: str | None = None
    base: str | None = None
    folder: Path | None = None
    author: str | None = None


def publish(asked: Asked, *, as_json: bool) -> int:
    """Sends every approved patch, or the named ones; the exit code. Raises `UserError`, `Infrastructure`."""
    token = os.environ.pop(TOKEN, "")
    with opened() as (settings, ledger):
        orders = approved(ledger, asked.patches)
        redact = _redactor(settings, token)
        who = person(asked.author or settings.forge_author)
        to = asked.to or settings.forge_to
        if not orders:
            sent: list[Sent] = []
        elif to is None:
            sent = _to_folder(orders, asked.folder or HANDED, who, redact)
        else:
            sent = _to_forge(ledger, orders, asked, settings, token=token, who=who, redact=redact)
        files = _after(ledger, orders, asked, to, sent) if orders else []
    _tell(sent, files, as_json=as_json)
    return 0 if all(s.status in DONE for s in sent) else 1


def approved(ledger: Ledger, named: Sequence[str]) -> list[Order]:
    """Orders for what people approved, each content once. Raises `UserError` for a named one that is not."""
    from day0.agent.patch_evidence import evidence
    from day0.tools.publish import Order, in_order

    runs = [run.id for run in ledger.runs(limit=10_000)]
    wanted = [ledger.patch(name).patch.digest() for name in named]
    digests = wanted or [r.patch.digest() for run in reversed(runs) for r in ledger.patches(run)]
    orders = []
    for digest in dict.fromkeys(digests):
        reviews = ledger.reviews(digest)
        patch = reviews[-1].patch
        said = [e for r in reviews for e in ledger.facts(r.run, "patch_reviewed") if e.data["patch"] == patch.digest()]
        rejected = any(r.status == "rejected" for r in reviews)
        granted = [e.at for e in said if e.data["status"] == "approved"]
        if rejected or not granted or any(r.status != "approved" for r in reviews):
            if named:
                status = "rejected" if rejected else "not approved"
                raise UserError(f"patch {patch.short} is {status}: `day0 patch approve {patch.short}` comes first")
            continue
        pushed = [e.data["commit"] for r in reviews for e in ledger.facts(r.run, PUSHED) if e.data["patch"] == digest]
        orders.append(
            Order(
                patch=patch, approved=digest, at=min(granted), evidence=evidence(ledger, reviews), pushed=tuple(pushed)
            )
        )
    return in_order(orders)


def person(given: str | None) -> Person:
    """Who signs off. Raises `UserError` where nobody is named."""
    from day0.tools import publish_git

    if given:
        found = re.match(r"([^<>\n]{1,100}?) <([^<>\s@]+@[^<>\s@]+)>\Z", given)
        if found is None:
            raise UserError(f"{given[:80]!r} is no person: write `Name <mail@host>`")
        return publish_git.Person(found[1], found[2])
    who = publish_git.person()
    if who is None:
        raise UserError("nobody signs off: give --author 'Name <mail>', or set git's user.name and user.email")
    return who


def _redactor(settings: Settings, token: str) -> Redactor:
    from day0.sandboxes.redact import Redactor, looks_secret

    told = [value for name, value in os.environ.items() if looks_secret(name)]
    return Redactor([*settings.secrets, token, *told])


def _to_forge(
    ledger: Ledger,
    orders: Sequence[Order],
    asked: Asked,
    settings: Settings,
    *,
    token: str,
    who: Person,
    redact: Redactor,
) -> list[Sent]:
    from day0.agent import compose
    from day0.tools import publish_git
    from day0.tools.publish import publish as send

    base = asked.base or settings.forge_base
    to = asked.to or settings.forge_to or ""
    fork = asked.fork or settings.forge_fork or ""
    sent = []
    with (
        compose.forge(to, fork, base, api=settings.forge_api, token=token) as (forge, place),
        publish_git.opened(place) as repository,
    ):
        for order in orders:
            steps = send(order, repository, forge, who=who, base=base, redact=redact)
            while True:
                try:
                    pushed = next(steps)
                except StopIteration as stop:
                    done: Sent = stop.value
                    break
                crashpoints.reached("branch-pushed")
                _note(ledger, order, PUSHED, pushed.model_dump(mode="json"))
            crashpoints.reached("pull-opened")
            _note(ledger, order, SENT, done.model_dump(mode="json"))
            sent.append(done)
    return sent


def _note(ledger: Ledger, order: Order, kind: str, data: dict[str, Any]) -> None:
    """Records it in the latest run that has this content, unless the same stands there as the last word."""
    run = ledger.reviews(order.patch.digest())[-1].run
    before = [e.data for e in ledger.facts(run, kind) if e.data["patch"] == order.patch.digest()]
    if not before or dict(before[-1]) != data:
        with ledger.write(run) as writer:
            writer.event(kind, data)


def _to_folder(orders: Sequence[Order], folder: Path, who: Person, redact: Redactor) -> list[Sent]:
    from day0.tools import publish_folder

    return publish_folder.write(folder, orders, who=who, redact=redact)


def _after(ledger: Ledger, orders: Sequence[Order], asked: Asked, to: str | None, sent: Sequence[Sent]) -> list[Path]:
    """Cookbook entries and waivers of the recipes that depend on what was sent; none where nobody asked for files."""
    from day0.runs.recipe import parse
    from day0.tools import publish_folder

    if to is not None and asked.folder is None:
        return []
    runs = {r.run: None for order in orders for r in ledger.reviews(order.patch.digest())}
    latest = {(run, stored.workload): stored for run in runs for stored in ledger.recipes(run)}
    recipes = [(f"{run}-{workload}", parse(stored.text)) for (run, workload), stored in latest.items()]
    return publish_folder.after(asked.folder or HANDED, recipes, [*sent, *_measured(ledger, runs, sent)])


def _measured(ledger: Ledger, runs: Iterable[str], sent: Sequence[Sent]) -> list[Sent]:
    """What was sent at its smallest, once more under the digest that recipes know it by."""
    by = {s.patch: s for s in sent}
    pairs = [(patch, str(d["smallest"])) for run in runs for patch, d in story.minimised(ledger, run).items()]
    return [by[less].model_copy(update={"patch": patch}) for patch, less in pairs if less in by]


def _tell(sent: Sequence[Sent], files: Sequence[Path], *, as_json: bool) -> None:
    if as_json:
        say_json([s.model_dump(mode="json") for s in sent])
    elif not sent:
        say("no patch is approved: `day0 patches RUN` lists them, `day0 patch approve ID` approves one")
    else:
        rows = ((s.patch[7:19], s.name, s.status, s.branch, s.url, line(s.why, 300)) for s in sent)
        table("published", ("patch", "name", "status", "branch", "pull request", "why"), rows)
        for file in files:
            say(f"next, in the order of their numbers: {file}")


__all__ = ["Asked", "approved", "person", "publish"]
