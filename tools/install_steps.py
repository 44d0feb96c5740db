"""What is installed into each environment, step by step: (what, argv)."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from day0.sandboxes.base import Sandbox
from day0.tools.engines import cpu_platform
from day0.tools.environments import CHECKS, ENGINE, EVALS, HARNESS, HIP_HEADERS

Steps = Callable[[Path, Sandbox], list[tuple[str, list[str]]]]


PIP = ("bin/python", "-m", "pip", "install", "--no-cache-dir", "--no-input", "--disable-pip-version-check")


REQUIREMENTS = {
    ENGINE: "requirements-sglang-cpu.txt",
    HARNESS: "requirements-harness.txt",
    EVALS: "requirements-evals.txt",
    CHECKS: "requirements-checks.txt",
}


def engine(folder: Path, sandbox: Sandbox) -> list[tuple[str, list[str]]]:
    """PyTorch, SGLang and day0's platform plug-in for a processor."""
    sandbox.write("requirements.txt", data("requirements-sglang-cpu.txt"))
    sandbox.write(cpu_platform.WHEEL, cpu_platform.wheel())
    pip = [str(folder / PIP[0]), *PIP[1:]]
    bare = [*pip, "--no-deps"]
    return [
        ("PyTorch and SGLang's requirements", [*pip, "-r", "requirements.txt"]),
        ("SGLang 0.5.23", [*bare, "sglang==0.5.23", "torchvision==0.28.0"]),
        # CUDA builds of torch bring the triton they need; beside a CPU build it is only ever imported
        ("Triton, for its imports", [str(folder / "bin/python"), "-c", TRITON, *bare, "triton==3.5.1"]),
        ("day0's platform plug-in", [*bare, "--force-reinstall", cpu_platform.WHEEL]),
    ]


TRITON = """import importlib.util, os, sys
importlib.util.find_spec("triton") or os.execv(sys.argv[1], sys.argv[1:])"""


def harness(folder: Path, sandbox: Sandbox) -> list[tuple[str, list[str]]]:
    """The benchmark client."""
    sandbox.write("requirements.txt", data("requirements-harness.txt"))
    pip = [str(folder / PIP[0]), *PIP[1:]]
    return [
        ("what the benchmark client imports", [*pip, "-r", "requirements.txt"]),
        ("the benchmark client of SGLang 0.5.9", [*pip, "--no-deps", "sglang==0.5.9"]),
    ]


def evals(folder: Path, sandbox: Sandbox) -> list[tuple[str, list[str]]]:
    """lm-eval."""
    sandbox.write("requirements.txt", data(REQUIREMENTS[EVALS]))
    return [("lm-eval 0.4.13", [str(folder / PIP[0]), *PIP[1:], "-r", "requirements.txt"])]


def checks(folder: Path, sandbox: Sandbox) -> list[tuple[str, list[str]]]:
    """clang-tidy and, where no engine here has them, HIP's headers."""
    sandbox.write("requirements.txt", data(REQUIREMENTS[CHECKS]))
    pip = [str(folder / PIP[0]), *PIP[1:]]
    steps = [("clang-tidy 23.1.4", [*pip, "-r", "requirements.txt"])]
    if not any(folder.parent.glob(f"{ENGINE}/{HIP_HEADERS}/hip")):
        steps.append(("Triton, for HIP's headers", [*pip, "--no-deps", "triton==3.5.1"]))
    return steps


def data(name: str) -> bytes:
    """A file that ships with day0's engines."""
    return files("day0.tools.engines").joinpath(name).read_bytes()
