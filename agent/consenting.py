"""`day0 consent`: a person allows the code or the pickled weights of one exact revision of a model, or takes it back.

Asked for where it is missing, kept in the ledger with who and when (S60, S61). Code of a checkpoint runs in containers
without network and secrets and nowhere else, so a consent counts on targets of kind `docker` alone.
"""

from __future__ import annotations

import getpass
import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

from day0.agent.looking import say, say_json, table
from day0.agent.policy.untrusted import line
from day0.agent.settings import Settings
from day0.agent.sources import opened
from day0.runs.consents import KINDS, Consent, ConsentKind
from day0.runs.errors import UserError
from day0.runs.ledger import Ledger, utc_now
from day0.runs.schema import RunRequest
from day0.runs.workload import Target

OPTION = "consents"
"""of a run's request: the kinds that count for its revision"""
CODE, PICKLE = KINDS


class Asking:
    """What a model is asked for while it is looked for: remembers whether a consent to pickled weights was used."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.pickled = False

    def pickle(self, revision: str) -> bool:
        """Whether somebody consented to this revision's pickled weights."""
        self.pickled = PICKLE in self.of(revision)
        return self.pickled

    def of(self, revision: str) -> frozenset[ConsentKind]:
        """What is allowed for a revision."""
        ledger = Ledger.open(self._settings.database)
        try:
            return ledger.consented(revision)
        finally:
            ledger.close()

    def counting(self, folder: Path, revision: str, target: Target) -> tuple[ConsentKind, ...]:
        """The consents that a run of this revision on this target goes by.

        Raises `UserError` for pickled weights on a target that has no containers.
        """
        from day0.tools.hub import brings_code

        if self.pickled and target.kind != "docker":
            raise UserError(
                f"pickled weights are loaded in a container without network only: target `{target.name}` is none, "
                "`cpu-docker` and `mi355x` are"
            )
        code = target.kind == "docker" and brings_code(folder) and CODE in self.of(revision)
        return (CODE,) * code + (PICKLE,) * self.pickled


def of(request: RunRequest) -> frozenset[str]:
    """The consents that a request goes by."""
    return frozenset(request.options.get(OPTION, ()))


def standing(ledger: Ledger, model: str, revision: str, kinds: Iterable[str]) -> None:
    """Raises `UserError` for a kind that is not, or no longer, consented to on this machine."""
    for kind in sorted({*kinds} - {*ledger.consented(revision)}):
        command = f"day0 consent {model}@{revision} --{kind}"
        raise UserError(f"{model} needs a person's consent to its {WORDS[kind]}: `{command}` records it")


WORDS: dict[str, str] = {CODE: "own Python code", PICKLE: "pickled weights"}


def consent(model: str, kinds: Sequence[ConsentKind], reason: str, *, withdraw: bool, as_json: bool) -> None:
    """Records a consent to each kind, or its withdrawal. Raises `UserError`: nothing of that kind, no such model."""
    from day0.tools.hub import code_of

    if not kinds:
        raise UserError("say to what: --remote-code, --pickle or both")
    with opened() as (settings, ledger):
        found = code_of(model, settings.home)
        files = {CODE: found.python, PICKLE: found.pickled}
        made = []
        for kind in kinds:
            if not files[kind] and not withdraw:
                raise UserError(f"{found.model} brings no {WORDS[kind]}: there is nothing to consent to")
            made.append(
                Consent(
                    kind=kind, model=found.model, revision=found.revision, files=files[kind], given=not withdraw,
                    who=who(), at=utc_now(), reason=reason,
                )
            )  # fmt: skip
        for each in made:
            ledger.consent(each)
    if as_json:
        say_json([each.model_dump(mode="json") for each in made])
        return
    for each in made:
        did = "consented to" if each.given else "withdrew the consent to"
        say(f"{each.who} {did} the {WORDS[each.kind]} of {each.model} at {each.revision}, and of no other revision")
        for name in each.files:
            say(f"  {line(name)}")


def listed(*, as_json: bool) -> None:
    """All consents, in order."""
    with opened() as (_, ledger):
        found = ledger.consents()
    if as_json:
        say_json([each.model_dump(mode="json") for each in found])
    elif not found:
        say("nobody consented to anything")
    else:
        rows = (
            (f"{c.at:%Y-%m-%d %H:%M}Z", c.who, "given" if c.given else "withdrawn", c.kind, line(c.model), c.revision,
             line(c.reason)) for c in found
        )  # fmt: skip
        table("consents", ("at", "who", "what", "kind", "model", "revision", "reason"), rows)


def who() -> str:
    """The user of this process and the machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        user = str(os.geteuid())
    return f"{user}@{platform.node()}"


__all__ = ["OPTION", "Asking", "consent", "listed", "of", "standing", "who"]
