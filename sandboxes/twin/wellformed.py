"""What a world's types can't tell: flags and values that its engine does not have, files and builds that it lacks."""

from __future__ import annotations

from argparse import Action
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from day0.runs.errors import UserError
from day0.runs.yaml_text import parse
from day0.sandboxes.twin import resolve
from day0.sandboxes.twin.conditions import Check, When
from day0.sandboxes.twin.parts import Build
from day0.sandboxes.twin.world import World

Place = tuple[str | int, ...]
Problem = tuple[Place, str]
RESOLVED = frozenset({"max-total-num-tokens"})
"""Arguments that the engine reports and nobody can ask for."""


def check(found: World, path: Path) -> None:
    """Raises `UserError` with file and line for the first thing that can't be meant."""
    problem = next(problems(found), None)
    if problem is not None:
        _, lines = parse(path.read_text(encoding="utf-8"))
        place = problem[0]
        while place not in lines:
            place = place[:-1]
        raise UserError(f"{path}:{lines[place]}: {problem[1]}")


def problems(found: World) -> Iterator[Problem]:
    """Everything wrong, with where it stands in the document."""
    names = {build.name for build in found.builds}
    files = {file for build in found.builds for file in build.tree}
    for number, build in enumerate(found.builds):
        yield from _build(build, ("builds", number))
    try:
        known = _known(found.builds)
    except UserError:
        return  # told above
    for place, when in _conditions(found):
        yield from _flags(known, when.flags, (*place, "flags"))
        yield from (((*place, "build", n), _no_build(b, names)) for n, b in enumerate(when.build) if b not in names)
        looked = [("source", f) for f in when.source] + [("header", when.header), ("drafts", when.drafts)]
        looked += [("result", when.result.file)] if when.result else []
        yield from (
            ((*place, part), f"no build has the file {file}") for part, file in looked if file and file not in files
        )
    mended = any(build.repaired for build in found.builds)
    for axis, choices in enumerate(found.space):
        for number, choice in enumerate(choices):
            place = ("space", axis, number)
            yield from _flags(known, choice.flags, (*place, "flags"))
            if choice.build is not None and choice.build not in names:
                yield (*place, "build"), _no_build(choice.build, names)
            if choice.repaired and not mended:
                yield (*place, "repaired"), "no build says what its files are when `repaired`"
    for number, told in enumerate(found.story):
        yield from _flags(known, told.flags, ("story", number, "flags"))


def _no_build(name: str, names: set[str]) -> str:
    return f"there is no build {name}; there are {', '.join(sorted(names))}"


def _build(build: Build, place: Place) -> Iterator[Problem]:
    try:
        resolve.rows(build.flags)
    except UserError as error:
        yield (*place, "flags"), str(error)
    for file in build.repaired:
        if file not in build.tree:
            yield (*place, "repaired", file), f"{file} is not in the tree"
        elif build.repaired[file] == build.tree[file]:
            yield (*place, "repaired", file), f"{file} is the same as in the tree"
    for file in build.tree:
        if file.startswith("/") or ".." in file.split("/"):
            yield (*place, "tree", file), f"{file} leads out of the workspace"


def _conditions(found: World) -> Iterator[tuple[Place, When]]:
    for number, fault in enumerate(found.faults):
        yield ("faults", number, "when"), fault.when
    for number, effect in enumerate(found.truth.effects):
        yield ("truth", "effects", number, "when"), effect.when


def _known(builds: Sequence[Build]) -> dict[str, Action]:
    """Flags of all catalogues by their dashed names, aliases too."""
    out: dict[str, Action] = {}
    for catalogue in dict.fromkeys(build.flags for build in builds):
        for name, action in resolve.parser(catalogue)._option_string_actions.items():
            out.setdefault(name.removeprefix("--"), action)
    return out


def _flags(known: Mapping[str, Action], given: Mapping[str, Any], place: Place) -> Iterator[Problem]:
    for name, value in given.items():
        if name in RESOLVED:
            continue
        action = known.get(name)
        if action is None:
            near = get_close_matches(name, known, n=2)
            meant = f"; the nearest are {', '.join(near)}" if near else ""
            yield (*place, name), f"the engine has no flag {name}{meant}"
            continue
        for word in _values(value):
            if not _fits(action, word):
                yield (*place, name), f"{name} can't be {word!r}{_allowed(action)}"


def _values(value: Any) -> Iterator[Any]:
    """What a flag is set to, or compared with; `None` leaves or takes it away."""
    if isinstance(value, Check):
        yield from (v for v in (value.equals, value.differs, *value.one_of) if v is not None)
    elif value is not None:
        yield value


def _fits(action: Action, value: Any) -> bool:
    if action.nargs == 0:
        return isinstance(value, bool)
    if isinstance(value, bool):
        return action.type is str
    if action.choices is not None and value not in action.choices:
        return False
    if action.type in (int, float) and action.nargs is None:
        try:
            action.type(str(value))
        except ValueError:
            return False
    return True


def _allowed(action: Action) -> str:
    if action.nargs == 0:
        return ": it is a switch, true or false"
    if action.choices is not None:
        return f": it is one of {', '.join(map(str, action.choices))}"
    return f": it is {'a whole number' if action.type is int else 'a number'}"
