"""Git itself, for real (GitPython), and a repository that lives only for a call.

No configuration, attributes, templates, hooks or credentials of the machine are read; nothing of the source is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from day0.runs.errors import DiskFull, Infrastructure, Refused
from day0.sandboxes.redact import Redactor

OPTIONS = {
    "core.hooksPath": "/dev/null",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.autocrlf": "false",
    "core.fsmonitor": "false",
    "core.symlinks": "false",
    "core.fileMode": "true",
    "core.quotePath": "true",
    "diff.external": "",
}
_FAILED = re.compile(r"^error: (.+)$", re.M)
_SOUGHT = re.compile(r"^error: while searching for:\n(.*?)\n+error: (patch failed: .+:\d+)$", re.M | re.S)
LINES, LINE = 4, 80
"""of what a hunk looks for, and of what is there instead: lines, and characters of each"""


class DoesNotApply(Refused):
    """The text is not the one that the diff was made against."""


@contextmanager
def repository(more: Mapping[str, str] | None = None) -> Iterator[tuple[Any, Path]]:
    """An empty repository in a folder of its own, with `more` settings, and its work tree; gone afterwards.

    Raises `Infrastructure` without git, `DiskFull`.
    """
    try:
        with TemporaryDirectory(prefix="day0-patch-") as name:
            folder = Path(name, "tree")
            folder.mkdir()
            made = git(folder, settings=more)
            run(made, "init", "--quiet", "--template=")
            yield made, folder
    except OSError as error:
        raise DiskFull(f"there is no room for a patch's files: {error.strerror}") from error


def git(
    folder: Path,
    variables: Mapping[str, str] | None = None,
    *,
    settings: Mapping[str, str] | None = None,
    own: Path | None = None,
    common: Path | None = None,
) -> Any:
    """Git on the work tree `folder`, with nothing of this machine's configuration. Raises `Infrastructure`.

    A worktree of a repository has git's files in `own`, and what it shares with others in `common`.
    """
    try:
        from git import Git
    except ImportError:
        raise Infrastructure("patches need git: install it (Debian, Ubuntu: apt install git)") from None
    made = Git(str(folder))
    made.update_environment(**environment(folder, settings, own, common), **(variables or {}))
    return made


def environment(
    folder: Path, more: Mapping[str, str] | None = None, own: Path | None = None, common: Path | None = None
) -> dict[str, str]:
    """Names every place itself, so that nothing set outside leads git elsewhere. `more` are further settings."""
    home, own = str(folder.parent), own or folder / ".git"
    shared = common or own
    options = {**OPTIONS, **(more or {})}
    settings = {f"GIT_CONFIG_{part}_{n}": word for n, pair in enumerate(options.items()) for part, word in
                zip(("KEY", "VALUE"), pair, strict=True)}  # fmt: skip
    return {
        "HOME": home, "XDG_CONFIG_HOME": home, "LC_ALL": "C",
        "GIT_DIR": str(own), "GIT_WORK_TREE": str(folder), "GIT_INDEX_FILE": str(own / "index"),
        "GIT_OBJECT_DIRECTORY": str(shared / "objects"), "GIT_COMMON_DIR": str(shared), "GIT_CONFIG_PARAMETERS": "",
        "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_CEILING_DIRECTORIES": home,
        "GIT_CONFIG_COUNT": str(len(options)), **settings,
    }  # fmt: skip


def run(git: Any, *words: str, timeout_s: float | None = None) -> str:
    """Runs git; its output, or stderr for `apply`. Raises `DoesNotApply`, `Infrastructure` (also after `timeout_s`)."""
    from git.exc import GitCommandError, GitCommandNotFound

    try:
        code, out, said = git.execute(
            ["git", *words], with_extended_output=True, stdout_as_string=False, strip_newline_in_stdout=False,
            kill_after_timeout=timeout_s,
        )  # fmt: skip
    except GitCommandNotFound:
        raise Infrastructure("patches need git: install it (Debian, Ubuntu: apt install git)") from None
    except GitCommandError as error:
        told = Redactor()(str(error.stderr))
        if words[0] == "apply":
            raise DoesNotApply(f"the patch does not apply: {_reason(told)}") from None
        raise Infrastructure(f"git {words[0]} failed: {told.strip()[:200]}") from None
    del code
    return str(said) if words[0] == "apply" else bytes(out).decode(errors="replace")


def _reason(told: str) -> str:
    """Where a hunk failed and what it looked for, or the first thing that git says against a patch."""
    if found := _SOUGHT.search(told):
        return f"{found[2]}: it looks for {brief(found[1])}"
    reason = _FAILED.search(told)
    return reason[1] if reason else told.strip()[:200]


def brief(text: str) -> str:
    """The first lines of a text on one line."""
    return repr(" | ".join(line.strip()[:LINE] for line in text.splitlines()[:LINES]))


__all__ = ["DoesNotApply", "brief", "environment", "git", "repository", "run"]
