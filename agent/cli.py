"""`day0`: the command line. Commands import what they need when they run, so that `--help` stays fast."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from pathlib import Path

import typer
from day0.agent import cli_consent, cli_engine, cli_eval, cli_forecast, cli_look, cli_patches, cli_run, cli_worlds
from day0.runs.errors import Day0Error, UserError

app = typer.Typer(
    name="day0",
    help="Finds the fastest configuration that really works for a new model, proves it and writes a recipe.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
cli_run.add_to(app)
cli_look.add_to(app)
cli_engine.add_to(app)
cli_forecast.add_to(app)
cli_eval.add_to(app)
cli_worlds.add_to(app)
cli_patches.add_to(app)
cli_consent.add_to(app)
OUTPUT_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE}


def main() -> None:
    """Entry point. Exit codes: 0 done, 1 no working configuration, 2 wrong use, 3 infrastructure."""
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    try:
        _text_only(sys.argv[1:])
        try:
            app()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # a full disk shows here and not when nobody can tell of it any more
    except Day0Error as error:
        typer.echo(f"day0: {error}", err=True)
        sys.exit(error.exit_code)
    except Exception as error:  # nobody foresaw it: one sentence for the user, the rest into a file
        from day0.agent.settings import redacted

        if lost := _lost_output(error):
            typer.echo(f"day0: the output can't be written: {lost}", err=True)
            sys.exit(3)
        where = _keep_traceback()
        said = " ".join(redacted(str(error)).split())
        typer.echo(f"day0: unexpected {type(error).__name__}: {said}; the traceback is in {where}", err=True)
        sys.exit(3)


def _lost_output(error: Exception) -> str:
    """Why standard output takes nothing any more; "" where that is not what failed. What is unwritten is dropped."""
    if not isinstance(error, OSError) or error.filename is not None or error.errno not in OUTPUT_ERRORS:
        return ""
    try:
        os.write(sys.stdout.fileno(), b"\n")  # a flush proves nothing where output is not buffered
    except ValueError:  # it has no descriptor, or is closed
        return error.strerror or str(error)
    except OSError as again:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # or the interpreter would fail once more when it ends
        os.close(nowhere)
        return again.strerror or str(again)
    return ""


def _text_only(given: list[str]) -> None:
    """Raises `UserError` for what is no text: neither the ledger nor a message could hold it."""
    for word in given:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UserError(f"{word!r} is not UTF-8 text") from None


def _keep_traceback() -> Path | str:
    """Writes the traceback under `$DAY0_HOME/logs` and names the file; says so where even that fails."""
    from datetime import UTC, datetime

    from day0.agent.settings import home_folder, redacted

    path = home_folder() / "logs" / f"crash-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.getpid()}.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(redacted(traceback.format_exc()))
    except OSError as error:
        return f"no file: {error}"
    return path
