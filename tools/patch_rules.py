"""What a patch to engine source may be: text changes to source files on a list of places, and nothing else.

`git apply` by itself takes links, submodules, changed modes, binaries, workflows and tests; none of that is a repair of
an engine. The reader of diffs here is narrower than git's: what it does not understand it refuses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from day0.runs.errors import Refused

MAX_CHARS, MAX_FILES, MAX_CHANGED = 200_000, 16, 2_000
ROOTS = (
    "sglang/python/sglang/", "sglang/sgl-kernel/", "aiter/aiter/", "aiter/csrc/", "aiter/configs/", "aiter/gradlib/",
    "python/sglang/", "sgl-kernel/",
)  # fmt: skip
"""Folders of engine source, relative to the workspace; the last two where the workspace is a checkout of SGLang."""
ENDINGS = frozenset({"py", "pyi", "cu", "cuh", "h", "hpp", "hip", "c", "cc", "cpp", "inl", "json", "csv"})
BARRED = frozenset({
    "test", "tests", "testing", "unittest", "unittests", "bench", "benchmark", "benchmarks", "auto_benchmark", "eval",
    "evals", "op_tests", "workflows", "docker", "ci", "scripts", "3rdparty", "third_party", "node_modules",
})  # fmt: skip
BARRED_FILES = re.compile(
    r"(test_.*|.*_test|conftest|bench_.*|.*_bench|benchmark_.*|setup|setup_\w+|sitecustomize|usercustomize|_?version)\.\w+\Z"
)
_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*\Z")
_GIT = re.compile(r"diff --git a/(\S+) b/(\S+)\Z")
_INDEX = re.compile(r"index [0-9a-f]{4,64}\.\.[0-9a-f]{4,64}(?: 100644)?\Z")
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_WHY = (
    (re.compile(r"(?:GIT binary patch|Binary files )"), "it holds a binary"),
    (re.compile(r"(?:new|deleted) file mode 120000|index \S+ 120000"), "it makes or removes a symbolic link"),
    (re.compile(r"(?:new|deleted) file mode 160000|index \S+ 160000|Subproject commit"), "it changes a submodule"),
    (re.compile(r"(?:old|new) mode |new file mode (?!100644\Z)|index \S+ (?!100644\Z)"), "it changes a file's mode"),
    (re.compile(r"(?:rename|copy) (?:from|to) |(?:dis)?similarity index "), "it renames or copies a file"),
    (re.compile(r"deleted file mode "), "it deletes a file"),
)  # fmt: skip


@dataclass(frozen=True)
class Touched:
    """One file of a diff."""

    path: str
    new: bool
    changed: int


def check_path(path: str) -> None:
    """Raises `Refused` for a path that no patch may touch (S63, S64)."""
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or "\\" in path or (len(path) > 1 and path[1] == ":"):
        raise Refused(f"a patch stays inside the engine's source: {path!r} does not")
    if any(part.startswith(".") for part in parts):
        raise Refused(f"{path!r} belongs to a tool (git, CI, an editor), not to the engine")
    if not _PATH.match(path) or len(path) > 300:
        raise Refused(f"{path[:80]!r} is no plain path")
    low = [part.lower() for part in parts]
    if barred := next((part for part in low[:-1] if part in BARRED), "") or (BARRED_FILES.match(low[-1]) or [""])[0]:
        raise Refused(f"{path!r} is off limits: {barred} decides or measures, it does not serve")
    if not path.startswith(ROOTS):
        raise Refused(f"{path!r} is not in a folder of engine source: {', '.join(ROOTS)}")
    if low[-1].rpartition(".")[2] not in ENDINGS:
        raise Refused(f"{path!r} is no source file")


def read(diff: str) -> tuple[Touched, ...]:
    """The files of a unified diff in git's format. Raises `Refused` with the first reason against it."""
    if len(diff) > MAX_CHARS:
        raise Refused(f"the patch has {len(diff)} characters; {MAX_CHARS} are allowed")
    if "\0" in diff or "\r" in diff.replace("\r\n", ""):
        raise Refused("the patch holds bytes that are no text")
    lines = diff.split("\n")
    if lines[-1] != "":
        raise Refused("the patch does not end with a line end: it was cut off")
    for line in lines:
        for pattern, why in _WHY:
            if pattern.match(line):
                raise Refused(f"the patch is refused: {why} ({line[:80]})")
    found = _Reader(lines[:-1]).files()
    paths = [file.path for file in found]
    if len(set(paths)) < len(paths):
        raise Refused("the patch names a file twice")
    if len(found) > MAX_FILES or sum(file.changed for file in found) > MAX_CHANGED:
        raise Refused(f"the patch is too large: at most {MAX_FILES} files and {MAX_CHANGED} changed lines")
    for path in paths:
        check_path(path)
    return tuple(found)


class _Reader:
    """Reads the lines of a diff; each that is not expected is a refusal."""

    def __init__(self, lines: list[str]) -> None:
        self.lines, self.at = lines, 0

    def files(self) -> list[Touched]:
        out = []
        while self.at < len(self.lines):
            out.append(self._file())
        if not out:
            raise Refused("the patch is empty")
        return out

    def _line(self) -> str:
        return self.lines[self.at] if self.at < len(self.lines) else ""

    def _wrong(self, expected: str) -> Refused:
        return Refused(f"line {self.at + 1} of the patch is not {expected}: {self._line()[:80]!r}")

    def _file(self) -> Touched:
        begins = _GIT.match(self._line())
        if begins is None:
            raise self._wrong("`diff --git a/PATH b/PATH`")
        path = begins[1]
        if begins[2] != path:
            raise Refused(f"the patch is refused: it renames {path!r}")
        self.at += 1
        new = self._line() == "new file mode 100644"
        self.at += new
        if _INDEX.match(self._line()):
            self.at += 1
        for mark, side in (("--- ", "/dev/null" if new else f"a/{path}"), ("+++ ", f"b/{path}")):
            if self._line().rstrip("\t") != mark + side:
                raise self._wrong(f"`{mark}{side}`")
            self.at += 1
        changed = 0
        if not self._line().startswith("@@"):
            raise self._wrong("the begin of a hunk")
        while self._line().startswith("@@"):
            changed += self._hunk()
        return Touched(path, new, changed)

    def _hunk(self) -> int:
        head = _HUNK.match(self._line())
        if head is None:
            raise self._wrong("`@@ -LINE,COUNT +LINE,COUNT @@`")
        old, new = (1 if head[n] is None else int(head[n]) for n in (2, 4))
        self.at += 1
        changed = 0
        while old > 0 or new > 0:
            if self.at >= len(self.lines):
                raise Refused("the last hunk of the patch is cut off")
            kind = self._line()[:1]
            if kind not in {" ", "", "-", "+", "\\"}:
                raise self._wrong("a line of the hunk")
            old -= kind in {" ", "", "-"}
            new -= kind in {" ", "", "+"}
            changed += kind in {"-", "+"}
            self.at += 1
        if old or new:
            raise Refused(f"the hunk {head[0]} counts other lines than it has")
        if self._line().startswith("\\"):
            self.at += 1
        return changed


__all__ = ["Touched", "check_path", "read"]
