"""A forge of plain files: pull requests as JSON beside a bare repository, for staging and for trying things out.

A person can look at one with any editor, close it by writing `closed` into its `state`, and merge its branch with git.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from day0.runs.errors import Infrastructure, Refused
from day0.sandboxes import files
from day0.tools.forge.base import Draft, Pull
from day0.tools.forge.pace import Pace

FOLDER = "day0-pulls"
"""in the bare repository's folder: git leaves what it does not know alone"""


class FileForge:
    """Pull requests of the bare repository in `folder`."""

    def __init__(self, folder: Path, pace: Pace) -> None:
        self.name = folder.name
        self._at, self._folder, self.pace = folder, folder / FOLDER, pace

    def pulls(self, branch: str) -> tuple[Pull, ...]:
        """See the port."""
        numbers = sorted((int(f.stem) for f in self._folder.glob("*.json") if f.stem.isdigit()), reverse=True)
        return tuple(pull for pull in map(self.pull, numbers) if pull.branch == branch)

    def pull(self, number: int) -> Pull:
        """See the port."""
        told = self._read(number)
        return Pull.model_validate({**told, "commit": self._head(told["branch"]) or told["commit"]})

    def open(self, asked: Draft) -> Pull:
        """See the port."""
        commit = self._head(asked.branch)
        if commit is None:
            raise Refused(f"{self.name} has no branch {asked.branch}")
        if any(pull.state == "open" for pull in self.pulls(asked.branch)):
            raise Refused(f"a pull request from {asked.branch} is open already")
        taken = [int(f.stem) for f in self._folder.glob("*.json") if f.stem.isdigit()]
        number = max(taken, default=0) + 1
        made = Pull(
            number=number, url=(self._folder / f"{number}.json").as_uri(), title=asked.title, body=asked.body,
            branch=asked.branch, commit=commit, base=asked.base, state="open", draft=True,
        )  # fmt: skip
        self._write(made)
        return made

    def rewrite(self, number: int, asked: Draft) -> Pull:
        """See the port."""
        found = self.pull(number)
        if found.state != "open":
            raise Refused(f"pull request {number} is {found.state}")
        made = found.model_copy(update={"title": asked.title, "body": asked.body})
        self._write(made)
        return made

    def label(self, number: int, labels: tuple[str, ...]) -> tuple[str, ...]:
        """See the port."""
        found = self.pull(number)
        every = tuple(dict.fromkeys((*found.labels, *labels)))
        self._write(found.model_copy(update={"labels": every}))
        return every

    def _head(self, branch: str) -> str | None:
        """The commit of a branch, as git wrote it."""
        loose = self._at / "refs" / "heads" / branch
        try:
            return loose.read_text().strip() if loose.is_file() else self._packed(f"refs/heads/{branch}")
        except OSError as error:
            raise Infrastructure(f"{self._at} can't be read: {error.strerror}") from None

    def _packed(self, ref: str) -> str | None:
        packed = self._at / "packed-refs"
        lines = packed.read_text().splitlines() if packed.is_file() else []
        return next((line.partition(" ")[0] for line in lines if line.partition(" ")[2] == ref), None)

    def _read(self, number: int) -> dict[str, Any]:
        try:
            told = json.loads((self._folder / f"{number}.json").read_text(encoding="utf-8"))
            Pull.model_validate(told)
        except (OSError, ValueError) as error:
            raise Infrastructure(f"{self.name} has no pull request {number} that can be read: {error}"[:300]) from None
        return dict(told)

    def _write(self, pull: Pull) -> None:
        self.pace.write()
        try:
            text = json.dumps(pull.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"
            self._folder.mkdir(parents=True, exist_ok=True)
            files.write(self._folder / f"{pull.number}.json", text.encode())
        except OSError as error:
            raise Infrastructure(f"{self._folder} can't be written: {error.strerror}") from None
        finally:
            self.pace.written()


__all__ = ["FOLDER", "FileForge"]
