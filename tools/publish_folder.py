"""A folder to hand over: mails as `git format-patch` writes them, the text of each pull request, and what comes after.

`git am --keep-non-patch 00*.patch` in a checkout of the engine applies the series; nothing here needs a network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC
from email.header import Header
from email.utils import format_datetime
from pathlib import Path

from day0.runs.errors import Infrastructure, Refused
from day0.runs.recipe import Recipe
from day0.tools import publish_text
from day0.tools.publish import Order, Sent, check
from day0.tools.publish_git import Person

Redact = Callable[[str], str]
NOBODY = "0" * 40
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_NAMES = re.compile(r"(?P<mark>diff --git |--- |\+\+\+ )(?P<rest>.+)\Z")


def write(folder: Path, orders: Sequence[Order], *, who: Person, redact: Redact) -> list[Sent]:
    """The series. What may not leave is refused and takes no number. Raises `Infrastructure`."""
    sent: list[Sent] = []
    good: list[Order] = []
    for order in orders:
        try:
            check(order, who, redact)
            good.append(order)
        except Refused as refused:
            sent.append(_sent(order, "refused", why=refused.reason))
    for number, order in enumerate(good, 1):
        name = f"{number:04d}-{order.patch.name}.patch"
        text = mail(order, who, redact, number=number, of=len(good))
        asked = publish_text.draft(
            order.patch, order.evidence, base="main", who=who, exact=True, redact=redact
        )  # fmt: skip
        _put(folder / name, text)
        _put(folder / f"{number:04d}-{order.patch.name}.pull.md", f"# {asked.title}\n\n{asked.body}\n")
        sent.append(_sent(order, "opened", url=(folder / name).absolute().as_uri()))
    return sent


def _sent(order: Order, status: str, *, url: str = "", why: str = "") -> Sent:
    return Sent.model_validate(
        {
            "patch": order.patch.digest(),
            "name": order.patch.name,
            "status": status,
            "branch": publish_text.branch(order.patch),
            "url": url,
            "why": why,
        }
    )


def mail(order: Order, who: Person, redact: Redact, *, number: int, of: int) -> str:
    """One patch as a mail: the commit that the publisher would make, and its diff relative to the repository."""
    patch, strip = order.patch, publish_text.engine_of(order.patch)[1]
    subject, _, rest = redact(publish_text.message(patch, who)).partition("\n")
    count = f" {number}/{of}" if of > 1 else ""
    heads = [
        f"From {NOBODY} Mon Sep 17 00:00:00 2001",
        f"From: {_header(who.name)} <{who.mail}>",
        f"Date: {format_datetime(order.at.astimezone(UTC))}",
        f"Subject: {_header(f'[PATCH{count}] {subject}')}",
        "MIME-Version: 1.0",
        "Content-Type: text/plain; charset=UTF-8",
        "Content-Transfer-Encoding: 8bit",
    ]
    body = rest.strip("\n")
    files = "\n".join(f" {path.split('/', strip)[-1]}" for path in sorted(patch.after))
    return "\n".join(heads) + f"\n\n{body}\n---\n{files}\n\n{relative(patch.diff, strip)}-- \nday0\n\n"


def _header(text: str) -> str:
    return text if text.isascii() else Header(text, "utf-8", maxlinelen=10_000).encode()


def relative(diff: str, strip: int) -> str:
    """The diff with `strip` leading folders less in its names; its hunks stay as they are, to the byte."""
    out: list[str] = []
    old = new = 0
    for row in diff.splitlines(keepends=True):
        if old > 0 or new > 0:
            old -= row[:1] in {" ", "-", "\n"}
            new -= row[:1] in {" ", "+", "\n"}
        elif hunk := _HUNK.match(row):
            old, new = (1 if hunk[n] is None else int(hunk[n]) for n in (1, 2))
        elif (found := _NAMES.match(row.rstrip("\n"))) is not None:
            words = (_shorter(word, strip) for word in found["rest"].split(" "))
            row = f"{found['mark']}{' '.join(words)}\n"  # noqa: PLW2901
        out.append(row)
    return "".join(out)


def _shorter(word: str, strip: int) -> str:
    side, _, path = word.partition("/")
    return word if side not in {"a", "b"} else f"{side}/{path.split('/', strip)[-1]}"


def after(folder: Path, recipes: Sequence[tuple[str, Recipe]], sent: Sequence[Sent]) -> list[Path]:
    """What follows the engine's pull requests, in InferenceX's order: the cookbook's entry, then recipe and waiver.

    `recipes` are (name, recipe); only those that depend on a patch are written. Raises `Infrastructure`.
    """
    where = {s.patch: s.url for s in sent if s.pull is not None}
    made: list[Path] = []
    for name, recipe in recipes:
        if not recipe.patches:
            continue
        links = [where.get(patch.digest(), "") for patch in recipe.patches]
        made += [folder / f"2-cookbook-{name}.md", folder / f"3-waiver-{name}.md"]
        _put(made[-2], publish_text.cookbook(recipe, links))
        _put(made[-1], publish_text.waiver(recipe.patches, pulls=links, model=recipe.model.id))
    return made


def _put(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        back = file.read_text(encoding="utf-8")
    except OSError as error:
        raise Infrastructure(f"{file} can't be written: {error.strerror}") from None
    if back != text:
        raise Infrastructure(f"{file} does not read back as it was written")


__all__ = ["after", "mail", "relative", "write"]
