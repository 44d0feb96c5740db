"""The command by which a person consents to code of a checkpoint."""

from __future__ import annotations

from typing import Annotated

import typer
from day0.agent.cli_run import Json

Model = Annotated[
    str | None, typer.Argument(help="a folder or a hub ID, best with its @REVISION; without: lists all consents")
]
Code = Annotated[bool, typer.Option("--remote-code", help="its own Python files may run (trust_remote_code)")]
Pickle = Annotated[bool, typer.Option("--pickle", help="its pickled weights may be loaded")]
Withdraw = Annotated[bool, typer.Option("--withdraw", help="take it back")]
Reason = Annotated[str, typer.Option(help="a sentence that is kept with it")]


def consent(
    model: Model = None,
    *,
    remote_code: Code = False,
    pickle: Pickle = False,
    withdraw: Withdraw = False,
    reason: Reason = "",
    json: Json = False,
) -> None:
    """Allow code of a model to run, for exactly one revision, in containers without network; kept with who and when."""
    from day0.agent import consenting

    if model is None:
        consenting.listed(as_json=json)
        return
    kinds = (consenting.CODE,) * remote_code + (consenting.PICKLE,) * pickle
    consenting.consent(model, kinds, reason, withdraw=withdraw, as_json=json)


def add_to(app: typer.Typer) -> None:
    """Registers this module's command."""
    app.command()(consent)
