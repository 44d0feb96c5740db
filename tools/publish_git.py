"""A patch as a commit on the newest base, in a repository that lives only for the call, and that commit on a branch.

No tree is checked out: the commit is made in the index from the base's own tree, so that no hook, filter or link of
what was fetched ever takes effect. The same patch on the same base gives the same commit, to the byte: whether a
branch is ours can be told from its content alone. Nothing of the machine's git configuration is read; the token goes
to git in its environment and stands in no argument, URL or file.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from day0.runs.errors import Infrastructure, Refused
from day0.runs.patches import Patch
from day0.tools import patch_git, patch_rules

GIT_S = 1800.0
"""of one git command over a network, wall time"""
_SHA = re.compile(r"[0-9a-f]{40,64}\Z")


@dataclass(frozen=True)
class Person:
    """Who signs a commit off: `name <mail>`."""

    name: str
    mail: str

    def __str__(self) -> str:
        return f"{self.name} <{self.mail}>"


@dataclass(frozen=True)
class Place:
    """Where commits come from and go to. `base_url` and `push_url` differ for a fork."""

    base_url: str
    base: str
    push_url: str
    token: str = ""

    def settings(self) -> dict[str, str]:
        """Git settings that carry the token to these hosts and to no other."""
        told = {"protocol.allow": "never", "protocol.https.allow": "always", "protocol.file.allow": "always"}
        told |= {"protocol.ssh.allow": "always", "gc.auto": "0", "maintenance.auto": "false"}
        told |= {"remote.base.url": self.base_url, "remote.push.url": self.push_url}
        if self.token:
            basic = base64.b64encode(f"x-access-token:{self.token}".encode()).decode()
            for url in {self.base_url, self.push_url}:
                if url.startswith("https://"):
                    told[f"http.{url}.extraHeader"] = f"Authorization: Basic {basic}"
        return told


@dataclass(frozen=True)
class Commit:
    """A commit that was made here."""

    sha: str
    base: str
    exact: bool
    """whether every file came out as when the patch was made; else its hunks stand at other lines"""


class AlreadyThere(Refused):
    """The base has the change already."""


class Repository:
    """Made by `opened`."""

    def __init__(self, git: Any, place: Place) -> None:
        self._git, self._place = git, place

    def base(self) -> str:
        """The newest commit of the base branch. Raises `Infrastructure`."""
        ref = f"refs/heads/{self._place.base}"
        self._run("fetch", "--quiet", "--no-tags", "--depth=1", "--filter=blob:none", "base", f"+{ref}:refs/day0/base")
        return (self._folder / "refs" / "day0" / "base").read_text().strip()

    def tip(self, branch: str) -> str | None:
        """The commit that a branch has where we push to; None: there is no such branch. Raises `Infrastructure`."""
        told = self._run("ls-remote", "push", f"refs/heads/{branch}").split()
        return told[0] if told and _SHA.match(told[0]) else None

    def parents(self, branch: str) -> tuple[str, ...]:
        """The parents of a branch's tip where we push to. Raises `Infrastructure`."""
        self._run(
            "fetch", "--quiet", "--no-tags", "--depth=2", "--filter=blob:none", "push",
            f"+refs/heads/{branch}:refs/day0/tip",
        )  # fmt: skip
        return tuple(self._run("rev-list", "--parents", "-n1", "refs/day0/tip").split()[1:])

    def commit(self, patch: Patch, base: str, message: str, who: Person, at: datetime, *, strip: int = 1) -> Commit:
        """The patch on `base`, by `who` at `at`; `strip` leading folders of its paths are not the repository's.

        Raises `AlreadyThere`, `DoesNotApply`, `Refused` when more than what the patch names would change,
        `Infrastructure`.
        """
        touched = {_without(file.path, strip) for file in patch_rules.read(patch.diff)}
        self._run("read-tree", base)
        diff = self._folder / "day0.diff"
        diff.write_bytes(patch.diff.encode())
        level = f"-p{1 + strip}"
        try:
            self._run("apply", "--cached", "--whitespace=nowarn", level, str(diff))
        except Refused:
            if self._reverses(level, diff):
                raise AlreadyThere("the base has this change already") from None
            raise
        tree = self._run("write-tree").strip()
        changed = self._run("diff-tree", "-r", "--name-only", "-z", base, tree).split("\0")
        if {name for name in changed if name} != touched:
            raise Refused("the patch would change other files than it names")
        when = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00")
        names = {
            f"GIT_{role}_{part}": value
            for role in ("AUTHOR", "COMMITTER")
            for part, value in (("NAME", who.name), ("EMAIL", who.mail), ("DATE", when))
        }
        with self._git.custom_environment(**names):
            sha = self._run("commit-tree", tree, "-p", base, "-m", message).strip()
        return Commit(sha, base, self._exact(patch, sha, strip))

    def push(self, branch: str, commit: Commit, *, instead_of: str | None) -> None:
        """Puts the commit on the branch if that still is at `instead_of` (None: not there), and reads it back.

        Raises `Infrastructure`: somebody else pushed meanwhile, the branch does not read back as it was pushed.
        """
        ref = f"refs/heads/{branch}"
        words = ["push", "--quiet", f"--force-with-lease={ref}:{instead_of or ''}", "push", f"{commit.sha}:{ref}"]
        try:
            self._run(*words)
        except Infrastructure as error:
            if "shallow" not in str(error):
                raise
            self._run("fetch", "--quiet", "--no-tags", "--unshallow", "--filter=blob:none", "base", self._place.base)
            self._run(*words)
        if (now := self.tip(branch)) != commit.sha:
            raise Infrastructure(f"branch {branch} reads back as {now or 'nothing'} and not as {commit.sha[:12]}")

    def _reverses(self, level: str, diff: Path) -> bool:
        try:
            self._run("apply", "--cached", "--check", "--reverse", "--whitespace=nowarn", level, str(diff))
        except Refused:
            return False
        return True

    def _exact(self, patch: Patch, sha: str, strip: int) -> bool:
        from day0.runs.values import sha256

        found = {path: sha256(self._run("cat-file", "blob", f"{sha}:{_without(path, strip)}")) for path in patch.after}
        return found == dict(patch.after)

    @property
    def _folder(self) -> Path:
        return Path(str(self._git.working_dir), ".git")

    def _run(self, *words: str) -> str:
        return patch_git.run(self._git, *words, timeout_s=GIT_S)


def _without(path: str, strip: int) -> str:
    return "/".join(path.split("/")[strip:])


@contextmanager
def opened(place: Place) -> Iterator[Repository]:
    """An empty repository that knows both remotes. Raises `Infrastructure`, `DiskFull`."""
    with patch_git.repository(place.settings()) as (git, _):
        yield Repository(git, place)


def person() -> Person | None:
    """Who the machine's git says the user is: `user.name` and `user.email`; None where either is missing."""
    from git import Git
    from git.exc import GitCommandError, GitCommandNotFound

    try:
        found = [str(Git().config("--global", "--get", key)).strip() for key in ("user.name", "user.email")]
    except (GitCommandError, GitCommandNotFound, ImportError):
        return None
    return Person(found[0], found[1]) if all(found) else None


__all__ = ["AlreadyThere", "Commit", "Person", "Place", "Repository", "opened", "person"]
