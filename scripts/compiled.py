"""Runs a Python program of this repository with the simulator compiled; needs a C compiler, changes no result.

    python scripts/compiled.py bench/twin_eval.py --worlds 200

The source is the same: mypyc (it comes with mypy) translates the modules in `COMPILED` to C, in a copy of the packages
under `build/compiled-HASH`. The hash is that of all source and of this interpreter, so that no copy is ever stale.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("agent", "tools", "sandboxes", "runs")
COMPILED = ("prefixcache", "promptcache", "replica")
"""of `day0.sandboxes.twin`: where the time of a simulated point goes"""
FLAGS = "-O2 -ffp-contract=off"
"""no fused multiply-add: it rounds once where Python rounds twice"""


def main(words: list[str]) -> None:
    """Makes the copy if it is not there, then becomes the program."""
    if not words:
        raise SystemExit(str(__doc__))
    folder = ROOT / "build" / f"compiled-{digest()[:16]}"
    if not folder.is_dir():
        made(folder)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))}
    os.execve(sys.executable, [sys.executable, *words], env)


def sources() -> list[Path]:
    """All files of the packages."""
    return sorted(
        p for layer in LAYERS for p in (ROOT / layer).rglob("*") if p.is_file() and p.parent.name != "__pycache__"
    )


def digest() -> str:
    """Of what a copy is made from."""
    state = hashlib.sha256(f"{sys.version} {FLAGS} {COMPILED}".encode())
    for path in sources():
        state.update(f"{path.relative_to(ROOT)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return state.hexdigest()


def made(folder: Path) -> None:
    """The copy, there whole or not at all. Raises `subprocess.CalledProcessError` where it does not compile."""
    part = folder.with_name(f"{folder.name}-{os.getpid()}")
    for layer in LAYERS:
        shutil.copytree(ROOT / layer, part / "day0" / layer, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "typings", part / "typings")
    shutil.copy(ROOT / "pyproject.toml", part)
    build = (
        "from setuptools import setup; from mypyc.build import mypycify; import sys; "
        "setup(name='compiled', packages=[], ext_modules=mypycify(sys.argv[3:]), script_args=sys.argv[1:3])"
    )
    files = [f"day0/sandboxes/twin/{name}.py" for name in COMPILED]
    subprocess.run(
        [sys.executable, "-c", build, "build_ext", "--inplace", *files],
        cwd=part,
        env={**os.environ, "CFLAGS": FLAGS},
        check=True,
        stdout=sys.stderr,
    )
    try:
        part.rename(folder)
    except OSError:  # somebody else was quicker
        shutil.rmtree(part)


if __name__ == "__main__":
    main(sys.argv[1:])
