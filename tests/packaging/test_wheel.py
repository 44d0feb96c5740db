"""The wheel holds every module and data file that git knows, and its command runs in a fresh environment."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("agent", "tools", "sandboxes", "runs")


def run(*argv: str, cwd: Path, **env: str) -> str:
    done = subprocess.run(argv, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    archive = out / "source.tar"
    run("git", "archive", "-o", str(archive), "HEAD", cwd=ROOT)
    with tarfile.open(archive) as tar:
        tar.extractall(source, filter="data")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(out), ".", cwd=source)
    return next(out.glob("day0-*.whl"))


def test_wheel_holds_what_git_knows(wheel: Path) -> None:
    files = run("git", "ls-files", *LAYERS, cwd=ROOT).split()
    known = {f"day0/{name}" for name in files}
    held = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("day0/")}
    assert known - held == set()
    assert held - known == set()


def test_command_runs_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    python = str(tmp_path / "env/bin/python")
    lock = str(ROOT / "requirements.lock")
    run(python, "-m", "pip", "install", "-q", "--require-hashes", "-r", lock, cwd=tmp_path)
    run(python, "-m", "pip", "install", "-q", "--no-deps", str(wheel), cwd=tmp_path)
    help_text = run(str(tmp_path / "env/bin/day0"), "--help", cwd=tmp_path, DAY0_HOME=str(tmp_path / "home"))
    assert "replay" in help_text
    assert "replay" in run(python, "-m", "day0.agent", "--help", cwd=tmp_path, DAY0_HOME=str(tmp_path / "home"))
