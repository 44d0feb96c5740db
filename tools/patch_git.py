"""`git apply` and `git diff` for real, in a repository that lives only for the call (GitPython).

The repository holds just the files that a patch touches. No configuration, attributes, templates, hooks or credentials
of the machine are read; nothing of the source is run.
"""

from __future__ import annotations

import os
import re
import stat
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
_MOVED = re.compile(r"Hunk #\d+ succeeded at \d+ \(offset (-?\d+) lines?\)")
_FAILED = re.compile(r"^error: (.+)$", re.M)


class DoesNotApply(Refused):
    """The text is not the one that the diff was made against."""


def difference(before: Mapping[str, str | None], after: Mapping[str, str]) -> str:
    """The unified diff from one state of files to another, in git's format. Raises `Infrastructure`."""
    with repository() as (git, folder):
        _put(folder, {path: text for path, text in before.items() if text is not None})
        run(git, "add", "--all")
        _put(folder, after)
        if new := [path for path in after if before.get(path) is None]:
            run(git, "add", "--intent-to-add", "--", *new)
        return run(git, "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--full-index", "-U3")


def apply(diff: str, files: Mapping[str, str], *, moved: bool = False) -> dict[str, str]:
    """The files after the diff. `moved`: hunks may be found at other lines than they say.

    Raises `DoesNotApply` with git's reason; `Infrastructure` where there is no git.
    """
    with repository() as (git, folder):
        _put(folder, files)
        place = folder / ".git" / "day0.diff"
        place.write_bytes(diff.encode())
        told = run(git, "apply", "--verbose", "--whitespace=nowarn", "-p1", str(place))
        if not moved and (at := _MOVED.search(told)):
            raise DoesNotApply(f"the patch fits only {at[1]} lines away from where it says: it was made for other text")
        return _taken(folder)


@contextmanager
def repository(more: Mapping[str, str] | None = None) -> Iterator[tuple[Any, Path]]:
    """An empty repository in a folder of its own, with `more` settings, and its work tree; gone afterwards.

    Raises `Infrastructure` without git, `DiskFull`.
    """
    try:
        from git import Git
    except ImportError:
        raise Infrastructure("patches need git: install it (Debian, Ubuntu: apt install git)") from None
    try:
        with TemporaryDirectory(prefix="day0-patch-") as name:
            folder = Path(name, "tree")
            folder.mkdir()
            git = Git(str(folder))
            git.update_environment(**environment(folder, more))
            run(git, "init", "--quiet", "--template=")
            yield git, folder
    except OSError as error:
        raise DiskFull(f"there is no room for a patch's files: {error.strerror}") from error


def environment(folder: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Names every place itself, so that nothing set outside leads git elsewhere. `more` are further settings."""
    home, own = str(folder.parent), folder / ".git"
    options = {**OPTIONS, **(more or {})}
    settings = {f"GIT_CONFIG_{part}_{n}": word for n, pair in enumerate(options.items()) for part, word in
                zip(("KEY", "VALUE"), pair, strict=True)}  # fmt: skip
    return {
        "HOME": home, "XDG_CONFIG_HOME": home, "LC_ALL": "C",
        "GIT_DIR": str(own), "GIT_WORK_TREE": str(folder), "GIT_INDEX_FILE": str(own / "index"),
        "GIT_OBJECT_DIRECTORY": str(own / "objects"), "GIT_COMMON_DIR": str(own), "GIT_CONFIG_PARAMETERS": "",
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
        reason = _FAILED.search(told)
        if words[0] == "apply":
            raise DoesNotApply(f"the patch does not apply: {reason[1] if reason else told.strip()[:200]}") from None
        raise Infrastructure(f"git {words[0]} failed: {told.strip()[:200]}") from None
    del code
    return str(said) if words[0] == "apply" else bytes(out).decode(errors="replace")


def _put(folder: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())


def _taken(folder: Path) -> dict[str, str]:
    """All that lies in the tree now. Raises `Refused` for what is no plain, text, unexecutable file."""
    out = {}
    for place, folders, names in os.walk(folder):
        if Path(place) == folder:
            folders.remove(".git")
        for name in names:
            file = Path(place, name)
            path, mode = file.relative_to(folder).as_posix(), file.lstat().st_mode
            if not stat.S_ISREG(mode) or mode & 0o111:
                raise Refused(f"the patch is refused: it makes {path!r} something else than a plain file")
            try:
                out[path] = file.read_bytes().decode()
            except UnicodeDecodeError:
                raise Refused(f"the patch is refused: {path!r} would be no text any more") from None
        for name in folders:
            if Path(place, name).is_symlink():
                raise Refused("the patch is refused: it makes a symbolic link")
    return out


__all__ = ["DoesNotApply", "apply", "difference", "environment", "run"]
