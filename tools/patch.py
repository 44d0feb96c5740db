"""Patches to engine source: made by codemods or from a diff, checked, applied by git, put where a server runs.

A patch is a unified diff over files of the engine's workspace. Its text is data: it is parsed, preprocessed, written,
never run here. Only changes of plain source files pass (`patch_rules`), and only exactly where they were made for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from day0.runs.errors import CandidateFailed, Infrastructure, Refused
from day0.runs.facts import FailureClass
from day0.runs.patches import Patch, Table
from day0.runs.values import sha256
from day0.sandboxes.base import Sandbox
from day0.tools import codemods, patch_minimal, patch_rules, worktree
from day0.tools.codemods.base import Files, Over, Source
from day0.tools.workspace import WORKSPACE, source_of

__all__ = [
    "WORKSPACE",
    "Files",
    "Over",
    "Source",
    "applied",
    "dress",
    "from_diff",
    "laid",
    "made",
    "same_program",
    "source_of",
]

_STAMP = re.compile(r"^\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[^\]\n]{0,80}\]\s*", re.M)
"""Time and rank in front of a line of SGLang's log."""


def made(
    codemod: str, source: Source, *, build: str, config: Mapping[str, Any], why: str = "", issue: str = ""
) -> Patch:
    """What a shipped codemod does to this source for this checkpoint (`config`: its config.json).

    Raises `Refused`: unknown codemod, nothing to change, or nothing it can change; `CandidateFailed` (bad_patch) when
    its own diff does not pass the rules; `Infrastructure` without git.
    """
    chosen = codemods.codemod(codemod)
    change = chosen.change(source, config, why)
    before = {path: source(path) for path in change.files}
    diff = worktree.difference(before, change.files)
    try:
        return _patch(
            diff,
            source,
            name=chosen.name,
            title=chosen.title,
            author=f"codemod:{chosen.name}",
            build=build,
            why=why,
            issue=issue or chosen.issue,
            upstream=chosen.upstream,
            gone=change.gone,
        )
    except Refused as refused:
        raise CandidateFailed(FailureClass.BAD_PATCH, f"{codemod}: {refused.reason}") from refused


def from_diff(diff: str, source: Source, *, build: str, name: str, title: str, why: str, author: str = "llm") -> Patch:
    """A diff that an LLM or a person wrote. Raises `Refused` with the one reason against it; `Infrastructure`."""
    made = _patch(_ended(diff), source, name=name, title=title, author=author, build=build, why=why)
    fewer = _smallest(made.diff, source)
    if fewer == made.diff:
        return made
    return _patch(fewer, source, name=name, title=title, author=author, build=build, why=why)


def _smallest(diff: str, source: Source) -> str:
    """Without hunks that change nothing a compiler or Python sees: a reviewer reads only what does something."""
    if len(patch_minimal.hunks(diff)) < 2:
        return diff
    files = {f.path: text for f in patch_rules.read(diff) if not f.new and (text := source(f.path)) is not None}
    with worktree.opened(files) as tree:
        whole = tree.apply(diff)

        def works(fewer: str) -> bool:
            tree.back()
            try:
                after = {**files, **tree.apply(fewer)}
            except Refused:
                return False
            return set(after) == set(whole) and all(same_program(p, after[p], whole[p]) for p in whole)

        return patch_minimal.minimal(diff, works)


def same_program(path: str, one: str, other: str) -> bool:
    """Whether two texts of a file are the same to Python, or to a compiler for ROCm and for CUDA; else to the byte."""
    if one == other:
        return True
    if path.endswith((".py", ".pyi")):
        import ast

        try:
            return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))
        except (SyntaxError, ValueError, RecursionError):
            return False
    if path.endswith((".cu", ".cuh", ".h", ".hpp", ".hip")):
        from day0.tools.codemods import rocm_guard

        try:
            return all(rocm_guard.seen(one, path, m) == rocm_guard.seen(other, path, m) for m in rocm_guard.COMPILERS)
        except Refused:
            return False
    return False


def _ended(diff: str) -> str:
    """Text of a model often lacks the last line end; nothing else is mended."""
    return diff if not diff or diff.endswith("\n") else diff + "\n"


def _patch(diff: str, source: Source, **fields: Any) -> Patch:
    touched = patch_rules.read(diff)
    files: dict[str, str] = {}
    for file in touched:
        text = source(file.path)
        if file.new and text is not None:
            raise Refused(f"the patch makes {file.path}, which is there already")
        if not file.new:
            if text is None:
                raise Refused(f"the engine's source has no file {file.path}")
            files[file.path] = text
    after = worktree.apply(diff, files)
    _only(after, {file.path for file in touched})
    if any(after[path] == files.get(path) for path in after):
        raise Refused("the patch changes nothing")
    for path, text in after.items():
        _whole(path, text)
    hashes = {path: sha256(text) for path, text in after.items()}
    fields["why"] = _STAMP.sub("", fields["why"]).strip()  # else the same patch had another digest at each boot
    return Patch(diff=diff, before={p: sha256(t) for p, t in files.items()}, after=hashes, **fields)


def _only(after: Iterable[str], allowed: set[str]) -> None:
    """Git's reading of a diff and ours must agree on what it touches."""
    if odd := set(after) ^ allowed:
        raise Refused(f"the patch touches other files than it names: {', '.join(sorted(odd))[:200]}")


def _whole(path: str, text: str) -> None:
    """Python must still parse. Raises `Refused`."""
    if path.endswith(".py"):
        import ast

        try:
            ast.parse(text)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise Refused(f"{path} would not be Python any more: {error}") from None


def applied(patches: Sequence[Patch], source: Source) -> dict[str, str]:
    """Path -> new text with all patches, one after the other, in a worktree of this attempt.

    Raises `CandidateFailed` (bad_patch) when one was made for other text, breaks a rule or gives another result than
    when it was made; `Infrastructure` without git; `DiskFull`.
    """
    touched = {file.path for patch in patches for file in _read(patch)}
    files = tuple((path, text) for path in sorted(touched) if (text := source(path)) is not None)
    return dict(_stacked(tuple(patch.canonical() for patch in patches), files))


@lru_cache(maxsize=64)
def _stacked(patches: tuple[str, ...], files: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The same patches are applied at every boot of a candidate; git is asked once."""
    source, now = dict(files), dict[str, str]()
    with worktree.opened(source) as tree:
        for patch in map(Patch.model_validate_json, patches):
            try:
                now |= _next(patch, source, now, tree)
            except Refused as refused:
                raise CandidateFailed(FailureClass.BAD_PATCH, f"patch {patch.name}: {refused.reason}") from refused
            tree.keep(patch.title)
    return tuple(now.items())


def _read(patch: Patch) -> tuple[patch_rules.Touched, ...]:
    try:
        return patch_rules.read(patch.diff)
    except Refused as refused:
        raise CandidateFailed(FailureClass.BAD_PATCH, f"patch {patch.name}: {refused.reason}") from refused


def _next(patch: Patch, source: Mapping[str, str], now: Mapping[str, str], tree: worktree.Tree) -> dict[str, str]:
    """One more patch. In a file that an earlier one changed its hunks may have moved; else all must be as it was."""
    touched, before = _read(patch), {**source, **now}
    moved: set[str] = set()
    for file in touched:
        text = before.get(file.path)
        if file.new != (text is None):
            raise Refused(f"{file.path} is {'there already' if file.new else 'not in this build'}")
        if text is not None and sha256(text) != patch.before.get(file.path):
            if file.path not in now:
                raise Refused(f"{file.path} is not the text that the patch was made for (build {patch.build})")
            moved.add(file.path)
    after = tree.apply(patch.diff, moved=bool(moved))
    paths = {file.path for file in touched}
    others = {path for path in {*after, *before} - paths if after.get(path) != before.get(path)}
    _only(others | (paths & set(after)), paths)
    for path in paths:
        if path not in moved and sha256(after[path]) != patch.after.get(path):
            raise Refused(f"{path} comes out different from when the patch was made")
        _whole(path, after[path])
    return {path: after[path] for path in paths}


def dress(
    sandbox: Sandbox, patches: Sequence[Patch], tables: Sequence[Table], env: Mapping[str, str]
) -> dict[str, str]:
    """Puts patched files and tables into a sandbox, reads each back, and gives the variables to add to the launch.

    `env` is what the launch has already. Raises `CandidateFailed` (bad_patch): a patch that does not apply, a variable
    that is already set; `Infrastructure` when a file does not read back as written; `DiskFull`.
    """
    texts = applied(patches, source_of(sandbox)) if patches else {}
    files, added = laid(tables, env)
    for path, text in sorted({**texts, **files}.items()):
        _write(sandbox, path, text)
    return added


def laid(tables: Sequence[Table], env: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The files of tables, by their path in the workspace, and the variables that name them to the engine.

    `env` is what the launch has already. Raises `CandidateFailed` (bad_patch): a variable that is already set.
    """
    held: dict[str, str] = {}
    for table in tables:
        if table.variable in env:
            raise CandidateFailed(FailureClass.BAD_PATCH, f"{table.variable} is set already: its table would not count")
        held[table.variable] = merged_texts(held[table.variable], table.text) if table.variable in held else table.text
    texts, added = {}, {}
    for variable, text in held.items():
        path = f"day0/{variable.lower()}-{sha256(text)[7:19]}.csv"
        texts[path] = text
        added[variable] = f"{WORKSPACE}/{path}"
    return texts, added


def merged_texts(first: str, second: str) -> str:
    """Two tuned tables as one: the engine stops at a key that stands twice."""
    from day0.tools.aiter_tables import merged

    return merged((first, second))


def _write(sandbox: Sandbox, path: str, text: str) -> None:
    place, data = f"{WORKSPACE}/{path}", text.encode()
    try:
        sandbox.write(place, data)
        back = sandbox.read(place, len(data) + 1)
    except Refused as refused:
        raise CandidateFailed(FailureClass.BAD_PATCH, f"this sandbox has no engine source: {refused.reason}") from None
    except FileNotFoundError:
        back = b""
    if back != data:
        raise Infrastructure(f"{place} does not read back as it was written")
