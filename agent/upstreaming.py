"""`upstream` and `patch watch`: what the engines' repositories have, and how our own patches stand there."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from day0.agent.carrying import WATCHED
from day0.agent.looking import say, say_json, table
from day0.agent.policy.untrusted import line
from day0.agent.publishing import SENT
from day0.agent.settings import Settings
from day0.agent.sources import opened
from day0.runs.errors import UserError
from day0.runs.ledger import Ledger
from day0.runs.values import sha256

if TYPE_CHECKING:
    from day0.tools.upstream import Upstream, Watched


@contextmanager
def asked(settings: Settings) -> Iterator[Upstream]:
    """GitHub, with the read token if there is one, and what it answered before."""
    from day0.sandboxes.clock import WallClock
    from day0.tools.forge.github import Api
    from day0.tools.forge.pace import Pace
    from day0.tools.upstream import Cache, Upstream

    token = settings.upstream_token.get_secret_value() if settings.upstream_token else ""
    with Api(Pace(WallClock(lambda: False)), token=token, api=settings.forge_api) as api:
        yield Upstream(api, Cache(settings.home / "upstream", time.time))


def about(words: list[str], engine: str, newest: str, *, as_json: bool) -> None:
    """What to do first about an architecture or a defect. Raises `UserError`, `Infrastructure`."""
    from day0.tools import upstream
    from day0.tools.publish_text import OWNERS

    if engine not in OWNERS:
        raise UserError(f"engine `{engine}` is unknown here: choose one of {', '.join(sorted(OWNERS))}")
    with opened() as (settings, _), asked(settings) as where:
        model = len(words) == 1 and words[0].endswith(("ForCausalLM", "ForConditionalGeneration"))
        ask = upstream.for_architecture if model else None
        told = (
            ask(where, words[0], engine=engine, newest=newest)
            if ask
            else upstream.for_issue(where, words, engine=engine, newest=newest)
        )
    if as_json:
        say_json(told.model_dump(mode="json"))
        return
    say(f"{told.step}: {told.why}")
    if told.base:
        say(f"begin from: {told.base}")
    seen = ([told.source] if told.source else []) + list(told.others)
    rows = ((f"{f.repository}#{f.number}", "PR" if f.is_pull else "issue", f.state, line(f.title), f.url) for f in seen)
    if seen:
        table("upstream", ("number", "kind", "state", "title", "where"), rows)


def answered(settings: Settings, engine: str, words: Sequence[str]) -> str:
    """The same as lines of text, for whoever asks in the middle of a run; never raises for what can't be asked.

    What is asked leaves this machine: no secret may be among the words.
    """
    from day0.runs.errors import Infrastructure
    from day0.sandboxes.redact import Redactor
    from day0.tools import upstream
    from day0.tools.publish_text import OWNERS

    hide = Redactor(settings.secrets)
    if engine not in OWNERS:
        return f"the repository of engine {engine} is not known"
    if any(hide(word) != word for word in words):
        return "words that look like a secret are not sent anywhere"
    try:
        with asked(settings) as where:
            told = upstream.for_issue(where, list(words), engine=engine)
    except Infrastructure as error:
        return f"upstream can't be asked now: {line(str(error), 200)}"
    seen = ([told.source] if told.source else []) + list(told.others)
    rows = [f"{f.repository}#{f.number} {'PR' if f.is_pull else 'issue'} {f.state}: {f.title} {f.url}" for f in seen]
    return "\n".join([f"{told.step}: {told.why}", *rows[:10]])


def note_merged(ledger: Ledger, run_id: str, told: Sequence[Watched]) -> None:
    """Remembers what is merged: a run on the next base is tried without it."""
    merged = [w for w in told if w.drop]
    if merged:
        with ledger.write(run_id) as writer:
            for one in merged:
                data = {"patch": one.patch, "state": one.state, "why": one.why}
                writer.event(WATCHED, data, key=f"upstream:{one.patch}:{sha256(one.why)[7:19]}")


def watch(run_id: str, *, as_json: bool) -> None:
    """Where a run's patches stand upstream now; what is merged is remembered. Raises `UserError` for an unknown run."""
    from day0.tools import upstream

    with opened() as (settings, ledger), asked(settings) as where:
        sent = {str(e.data["patch"]): str(e.data["url"]) for e in ledger.facts(run_id, SENT) if e.data["url"]}
        patches = [(r.patch, sent.get(r.patch.digest(), "")) for r in ledger.patches(run_id)]
        told = upstream.watch(where, patches)
        note_merged(ledger, run_id, told)
    if as_json:
        say_json([w.model_dump(mode="json") for w in told])
    elif not told:
        say(f"run {run_id} has no patches for review")
    else:
        rows = ((w.patch[7:19], w.name, w.state, "yes" if w.drop else "", line(w.why, 300)) for w in told)
        table("upstream", ("patch", "name", "state", "drop", "why"), rows)
