"""Commands about patches to engine source: what a run made, and a person's review of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from day0.agent.cli_run import Json, Run

PatchId = Annotated[str, typer.Argument(help="the beginning of a patch's digest, as `day0 patches RUN` lists it")]
Reason = Annotated[str, typer.Option(help="a sentence that is kept with the review")]
Words = Annotated[list[str], typer.Argument(help="an architecture's class, or telling words of a log line")]
Engine = Annotated[str, typer.Option(help="sglang or aiter")]
Newest = Annotated[str, typer.Option(help="day of the newest image that you could use, `2026-11-30`")]
Named = Annotated[
    list[str] | None, typer.Argument(metavar="[PATCH]...", help="only these; without, every approved one")
]
To = Annotated[
    str | None, typer.Option(help="a bare repository on this machine, or owner/name on the forge; without: a folder")
]
Fork = Annotated[str | None, typer.Option(help="owner/name to push to, if that is another repository")]
Base = Annotated[str | None, typer.Option(help="branch that is to be changed (default: main)")]
Folder = Annotated[Path | None, typer.Option(help="where mails, cookbook entries and waivers go")]
Author = Annotated[str | None, typer.Option(help="who signs off, `Name <mail>` (default: as git knows you)")]

group = typer.Typer(
    help="Look at one patch, approve or reject it. A review is recorded and final, and is of exactly that content.",
    no_args_is_help=True,
)


def patches(run: Run, json: Json = False) -> None:
    """The patches to engine source that a run found good, and where their review stands."""
    from day0.agent import reviewing

    reviewing.patches(run, as_json=json)


@group.command()
def show(patch: PatchId, json: Json = False) -> None:
    """One patch: why it was made, what it changes, which attempts ran with it."""
    from day0.agent import reviewing

    reviewing.show(patch, as_json=json)


@group.command()
def approve(patch: PatchId, reason: Reason = "", json: Json = False) -> None:
    """Record that exactly this content may go upstream, in every run that made it. Nothing is sent anywhere."""
    from day0.agent import reviewing

    reviewing.review(patch, "approved", reason, as_json=json)


@group.command()
def reject(patch: PatchId, reason: Reason = "", json: Json = False) -> None:
    """Record that this content may not go upstream. Recipes that have it stay as they are."""
    from day0.agent import reviewing

    reviewing.review(patch, "rejected", reason, as_json=json)


@group.command()
def watch(run: Run, json: Json = False) -> None:
    """Where a run's patches stand upstream: what is merged is tried without at the next base, and verified again."""
    from day0.agent import upstreaming

    upstreaming.watch(run, as_json=json)


def upstream(words: Words, engine: Engine = "sglang", newest: Newest = "", json: Json = False) -> None:
    """Ask GitHub what an engine's repository has about an architecture or a defect, and what to do first.

    `upstream NewModelForCausalLM` asks for model support; other words are searched in issues and pull requests.
    """
    from day0.agent import upstreaming

    upstreaming.about(words, engine, newest, as_json=json)


def publish(
    patch: Named = None,
    *,
    to: To = None,
    fork: Fork = None,
    base: Base = None,
    folder: Folder = None,
    author: Author = None,
    json: Json = False,
) -> None:
    """Send what people approved: a branch and a draft pull request each, or a folder of mails for `git am`.

    Given again it changes nothing that is as it should be. The token is read from DAY0_FORGE_TOKEN by this command
    alone. Exit code 1: something approved was not sent, and the reason is said.
    """
    from day0.agent import publishing

    asked = publishing.Asked(tuple(patch or ()), to, fork, base, folder, author)
    raise typer.Exit(publishing.publish(asked, as_json=json))


def add_to(app: typer.Typer) -> None:
    """Registers this module's commands."""
    app.command()(patches)
    app.command()(publish)
    app.command()(upstream)
    app.add_typer(group, name="patch")
