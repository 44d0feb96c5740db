"""Engine sources as git worktrees (GitPython): each attempt has one of its own, which is gone afterwards (S29).

The repository belongs to this process and holds what is common: the objects. A worktree has its own files, index and
lock, so that whoever holds one stops nobody else. What lies in it is the text of just the files that a patch touches;
nothing of it is run.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import IO, Any
from weakref import finalize

from day0.runs.errors import DiskFull, Refused
from day0.tools import patch_git
from day0.tools.patch_git import DoesNotApply, brief, run

PREFIX = "day0-source-"
ROOT = "refs/heads/source"
PERSON = {"NAME": "day0", "EMAIL": "day0@localhost", "DATE": "2000-01-01T00:00:00+00:00"}
WHO = {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in PERSON.items()}
SETTINGS = {"gc.auto": "0", "maintenance.auto": "false", "commit.gpgSign": "false"}
_MOVED = re.compile(r"Hunk #\d+ succeeded at \d+ \(offset (-?\d+) lines?\)")
_PLACE = re.compile(r"patch failed: (.+?):(\d+):")


class Repository:
    """What worktrees of a process have in common, in a folder of its own; what ended processes left is removed."""

    def __init__(self, beside: Path) -> None:
        remove_left(beside)
        place = Path(mkdtemp(prefix=".day0-", dir=beside))
        held = _locked(place)
        self.at = place.rename(beside / f"{PREFIX}{place.name.removeprefix('.day0-')}")  # under its lock from the first
        self.close = finalize(self, _remove, self.at, held)
        self._numbers = count(1)
        self._main = self.at / "source"
        self._main.mkdir()
        self.git = patch_git.git(self._main, WHO, settings=SETTINGS)
        run(self.git, "init", "--quiet", "--template=")
        empty = run(self.git, "hash-object", "-t", "tree", "-w", "/dev/null").strip()
        run(self.git, "update-ref", ROOT, run(self.git, "commit-tree", empty, "-m", "source").strip())

    @property
    def store(self) -> Path:
        """Git's own folder."""
        return self._main / ".git"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Holds the list of worktrees, for the moment of a change: git fails at an entry that another is writing."""
        with (self.at / "worktrees.lock").open("ab") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield

    def name(self) -> str:
        """Of a worktree that this process has not had yet."""
        return f"attempt-{next(self._numbers)}"


class Tree:
    """One worktree. Made by `opened`; its files are committed, and so is each patch that `keep` is told of."""

    def __init__(self, git: Any, folder: Path, own: Path) -> None:
        self._git, self.folder, self.own = git, folder, own

    def put(self, files: Mapping[str, str]) -> None:
        """Writes files."""
        for path, text in files.items():
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())

    def keep(self, title: str) -> None:
        """Commits all that lies there now."""
        run(self._git, "add", "--all")
        run(self._git, "commit", "--quiet", "--allow-empty", "--no-verify", "-m", title)

    def back(self) -> None:
        """To the last commit."""
        run(self._git, "reset", "--quiet", "--hard")
        run(self._git, "clean", "--quiet", "-ffdx")

    def apply(self, diff: str, *, moved: bool = False) -> dict[str, str]:
        """All files after the diff. `moved`: hunks may be found at other lines than they say.

        Raises `DoesNotApply` with git's reason and what stands at that place; `Refused` where something else than
        plain text comes out of it.
        """
        place = self.own / "day0.diff"
        place.write_bytes(diff.encode())
        try:
            told = run(self._git, "apply", "--verbose", "--whitespace=nowarn", "-p1", str(place))
        except DoesNotApply as error:
            raise DoesNotApply(error.reason + self._there(error.reason)) from None
        if not moved and (at := _MOVED.search(told)):
            raise DoesNotApply(f"the patch fits only {at[1]} lines away from where it says: it was made for other text")
        return self.texts()

    def difference(self, new: Sequence[str] = ()) -> str:
        """The unified diff since the last commit, in git's format; `new` names files that it has not."""
        if new:
            run(self._git, "add", "--intent-to-add", "--", *new)
        form = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--full-index", "-U3")
        return run(self._git, "diff", *form)

    def texts(self) -> dict[str, str]:
        """All that lies there. Raises `Refused` for what is no plain, unexecutable file of text."""
        out = {}
        for place, folders, names in os.walk(self.folder):
            for name in names:
                file = Path(place, name)
                path, mode = file.relative_to(self.folder).as_posix(), file.lstat().st_mode
                if path == ".git":
                    continue
                if not stat.S_ISREG(mode) or mode & 0o111:
                    raise Refused(f"the patch is refused: it makes {path!r} something else than a plain file")
                try:
                    out[path] = file.read_bytes().decode()
                except UnicodeDecodeError:
                    raise Refused(f"the patch is refused: {path!r} would be no text any more") from None
            if any(Path(place, name).is_symlink() for name in folders):
                raise Refused("the patch is refused: it makes a symbolic link")
        return out

    def _there(self, reason: str) -> str:
        """What stands where a hunk was to go; empty where git named no line of a file that is here."""
        found = _PLACE.search(reason)
        text = self.texts().get(found[1]) if found else None
        if found is None or text is None:
            return ""
        rest = text.splitlines()[max(int(found[2]) - 1, 0) :]
        return f", and there stands {brief(chr(10).join(rest))}" if rest else ", and the file ends before that line"


_OWN: dict[int, Repository] = {}


def repository() -> Repository:
    """This process' own. Raises `Infrastructure` without git, `DiskFull`."""
    known = _OWN.get(os.getpid())
    if known is None or not known.store.is_dir():
        made = Repository(Path(gettempdir()))
        if known is not None:
            _OWN.pop(os.getpid(), None)
        known = _OWN.setdefault(os.getpid(), made)  # of two threads one is first, and both use what it made
        if known is not made:
            made.close()
    return known


@contextmanager
def opened(files: Mapping[str, str]) -> Iterator[Tree]:
    """A worktree of its own with these files as its source; removed and pruned afterwards.

    Raises `Infrastructure` without git, `DiskFull`.
    """
    try:
        common = repository()
        name = common.name()
        folder, own = common.at / name, common.store / "worktrees" / name
        with common.alone():
            run(common.git, "worktree", "add", "--quiet", "--detach", "--no-checkout", str(folder), ROOT)
        try:
            tree = Tree(patch_git.git(folder, WHO, settings=SETTINGS, own=own, common=common.store), folder, own)
            tree.put(files)
            tree.keep("the engine's source")
            yield tree
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with common.alone():
                run(common.git, "worktree", "prune", "--expire=now")
    except OSError as error:
        raise DiskFull(f"there is no room for a patch's files: {error.strerror}") from error


def difference(before: Mapping[str, str | None], after: Mapping[str, str]) -> str:
    """The unified diff from one state of files to another, in git's format. Raises `Infrastructure`, `DiskFull`."""
    with opened({path: text for path, text in before.items() if text is not None}) as tree:
        tree.put(after)
        return tree.difference([path for path in after if before.get(path) is None])


def apply(diff: str, files: Mapping[str, str], *, moved: bool = False) -> dict[str, str]:
    """The files after the diff. Raises as `Tree.apply` and `opened`."""
    with opened(files) as tree:
        return tree.apply(diff, moved=moved)


def remove_left(beside: Path) -> None:
    """Removes repositories of processes that ended without doing so: nobody holds their lock any more."""
    for left in beside.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if left.lstat().st_uid == os.geteuid() and not left.is_symlink():
                _locked(left).close()
                shutil.rmtree(left, ignore_errors=True)


def _remove(folder: Path, held: IO[bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    held.close()


def _locked(folder: Path) -> IO[bytes]:
    """The folder's lock, held until it is closed or the process ends. Raises `BlockingIOError`: somebody holds it."""
    held = (folder / "lock").open("ab")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.close()
        raise
    return held


__all__ = ["Repository", "Tree", "apply", "difference", "opened", "remove_left", "repository"]
