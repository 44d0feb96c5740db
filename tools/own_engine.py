"""Engines that day0 did not install: an environment that is on this machine already, named so that a target can use it.

On an accelerator node that is the environment of the engine's own container, with day0 running beside it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from day0.runs.errors import Infrastructure, UserError
from day0.tools.environments import HARNESS, MARKER, EngineHome, Installed, engines_folder, environment_digest, packages

NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}\Z")
SUFFIX = ".own.json"


def use(home: str | Path, name: str, folder: Path) -> str:
    """Registers the environment in `folder` (with `bin/python` and SGLang installed) under a name; its build.

    Raises `UserError` where it is none, holds no SGLang, or the name is taken by one that day0 installed.
    """
    if not NAME.match(name):
        raise UserError(f"{name!r} is no name for an engine: small letters, digits, dots and dashes")
    place = folder.expanduser().absolute()
    if (engines_folder(home) / name).exists():
        raise UserError(f"`{name}` is an engine that day0 installed itself: take another name")
    if not (place / "bin" / "python").exists():
        raise UserError(f"{place} has no bin/python: name the folder of a Python environment, as `sys.prefix` says it")
    held = packages(place)
    if "sglang" not in held:
        raise UserError(f"no SGLang is installed in {place}: `{place}/bin/python -m pip show sglang` must find it")
    file = engines_folder(home) / f"{name}{SUFFIX}"
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(file.name + ".part")
    part.write_text(json.dumps({"folder": str(place), "sglang": held["sglang"]}) + "\n")
    part.replace(file)
    return environment_digest(place)


def own(home: str | Path, name: str) -> EngineHome:
    """A registered engine with day0's own load generator beside it. Raises `UserError` where either is missing."""
    file, harness = engines_folder(home) / f"{name}{SUFFIX}", engines_folder(home) / HARNESS
    try:
        told = json.loads(file.read_text())
        folder, version = str(told["folder"]), str(told["sglang"])
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(
            f"this target wants the engine `{name}`: `day0 engine use FOLDER --name {name}` says where it is"
        ) from None
    if not (harness / MARKER).is_file():
        raise UserError("the load generator is not installed: run `day0 engine install harness` first")
    try:
        build = environment_digest(folder)
    except Infrastructure:
        raise UserError(f"the engine `{name}` is no longer in {folder}: `day0 engine use` it again") from None
    return EngineHome(
        engine=folder,
        build=build,
        harness=str(harness),
        harness_build=environment_digest(harness),
        name=name,
        version=version,
    )


def listing(home: str | Path) -> tuple[Installed, ...]:
    """Every registered engine, by name; `build` is empty where its folder is no environment any more."""
    out = []
    for file in sorted(engines_folder(home).glob(f"*{SUFFIX}")):
        try:
            folder = str(json.loads(file.read_text())["folder"])
            build, count = environment_digest(folder), len(packages(folder))
        except (OSError, ValueError, KeyError, TypeError, Infrastructure):
            folder, build, count = "", "", 0
        out.append(Installed(name=file.name.removesuffix(SUFFIX), folder=folder, build=build, packages=count))
    return tuple(out)
