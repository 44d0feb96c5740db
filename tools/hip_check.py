"""Patched HIP headers and kernels, compiled for gfx942 and gfx950 by clang-tidy before any GPU time is spent.

No GPU and no ROCm are needed: clang's own HIP wrapper and the HIP headers of a Triton wheel do. They are not all of
ROCm, so what needs more than they have is called `not checked`, never passed. Nothing is linked or run.
"""

from __future__ import annotations

import posixpath
import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal

from day0.runs.errors import Timeout
from day0.runs.values import Frozen, Map
from day0.sandboxes.base import Node, Sandbox
from day0.sandboxes.spec import SandboxSpec
from day0.tools.codemods.base import Source
from day0.tools.codemods.rocm_guard import foreign

ENDINGS = (".cu", ".cuh", ".h", ".hpp", ".hip")
ARCHS = ("gfx942", "gfx950")
ROOTS = (
    "sglang/python/sglang/jit_kernel/include", "sglang/python/sglang/kernels/jit/include", "sglang/sgl-kernel/include",
    "sglang/sgl-kernel/csrc", "aiter/csrc/include",
)  # fmt: skip
"""where kernels of the engines look for headers of their own"""
LIMIT_S, MEMORY_BYTES, MOST = 120.0, 4 << 30, 300
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:<([\w+./-]+)>|"([\w+./-]+)")', re.M)
_ERROR = re.compile(r"^(\S+?):(\d+):\d+: (?:fatal )?error: (.+?)(?: \[[\w.,-]+\])?$", re.M)
_MISSING = re.compile(r"'([^']+)' file not found")


class Checker(Frozen):
    """The environment with clang-tidy, and the folder with HIP's headers; empty: there is none here."""

    environment: str = ""
    headers: str = ""

    @classmethod
    def at(cls, environment: str, headers: str) -> Checker:
        """Of what `environments.checks_of` found."""
        return cls(environment=environment, headers=headers)


class Checked(Frozen):
    """What a compiler says of a patch. `why`: the first error, or the reason why nobody can tell."""

    outcome: Literal["passes", "fails", "not checked"]
    why: str = ""


class Fault(Frozen):
    """One error of the compiler."""

    path: str
    line: int
    said: str

    @property
    def missing(self) -> str:
        """The header that was not found; empty for another error."""
        found = _MISSING.search(self.said)
        return found[1] if found else ""


class Texts(Frozen):
    """Kernels and headers before and after a patch, with all that they include of the engine's own."""

    changed: tuple[str, ...]
    before: Map[str]
    after: Map[str]


def texts_of(before: Source, after: Source, changed: Iterable[str]) -> Texts | None:
    """What has to be compiled; None where nothing of it is HIP's."""
    kernels = tuple(sorted(path for path in changed if path.endswith(ENDINGS)))
    if not kernels:
        return None
    return Texts(changed=kernels, before=reached(before, kernels), after=reached(after, kernels))


def reached(source: Source, paths: Sequence[str]) -> dict[str, str]:
    """The files, and those of the engine that they include, by path."""
    found: dict[str, str] = {}
    todo = deque(paths)
    while todo and len(found) < MOST:
        path = todo.popleft()
        if path in found or (text := source(path)) is None:
            continue
        found[path] = text
        for angled, quoted in _INCLUDE.findall(text):
            name, folder = angled or quoted, path.rpartition("/")[0]
            places = [posixpath.normpath(f"{root}/{name}") for root in ([folder] if quoted else []) + list(ROOTS)]
            todo.extend(place for place in places if not place.startswith(("/", "..")))
    return found


def check(node: Node, checker: Checker, texts: Texts, attempt: str) -> Checked:
    """Compiles what changed, for the device of each architecture and for the host, in a sandbox without network.

    Raises `Infrastructure`, `NodeLost`, `Cancelled`, `DiskFull`.
    """
    if not (checker.environment and checker.headers):
        lacks = "clang-tidy" if not checker.environment else "HIP's headers"
        return Checked(outcome="not checked", why=f"no {lacks} here: `day0 engine install checks`")
    spec = SandboxSpec(
        role="job", environment=checker.environment, attempt=attempt, network="none", memory_bytes=MEMORY_BYTES,
        mounts=((checker.headers, checker.headers),),
    )  # fmt: skip
    with node.open(spec) as sandbox:
        for side, files in (("before", texts.before), ("after", texts.after)):
            for path, text in files.items():
                sandbox.write(f"{side}/{path}", text.encode())
        for path in texts.changed:
            for mode in modes(checker.headers):
                told = _judged(sandbox, path, mode, texts)
                if told.outcome != "passes":
                    return told
    return Checked(outcome="passes", why=f"{', '.join(ARCHS)} and the host")


def modes(headers: str) -> tuple[tuple[str, ...], ...]:
    """Arguments of the compiler: the device side of each architecture, then the host side."""
    common = ("-x", "hip", "-std=c++20", "-nogpulib", "-nogpuinc", "-D__HIP_PLATFORM_AMD__", "-DUSE_ROCM",
              "-isystem", headers, "-include", "__clang_hip_runtime_wrapper.h")  # fmt: skip
    device = tuple((*common, f"--offload-arch={arch}", "--offload-device-only") for arch in ARCHS)
    return (*device, (*common, f"--offload-arch={ARCHS[-1]}", "--offload-host-only"))


def _judged(sandbox: Sandbox, path: str, mode: tuple[str, ...], texts: Texts) -> Checked:
    after = _faults(sandbox, "after", path, mode)
    if isinstance(after, Checked):
        return after
    if not after:
        return Checked(outcome="passes")
    before = _faults(sandbox, "before", path, mode) if path in texts.before else ()
    return verdict(after, () if isinstance(before, Checked) else before)


def verdict(after: Sequence[Fault], before: Sequence[Fault]) -> Checked:
    """What errors with the patch mean, beside those without it.

    A header that no ROCm has fails. One that only these headers lack hides the rest of the file. What was there
    before is not the patch's doing, but nobody can tell what it hides either.
    """
    known = {(fault.path, fault.said) for fault in before}
    missing = [fault for fault in after if fault.missing]
    for fault in missing:
        if foreign(f"<{fault.missing}>"):
            return Checked(outcome="fails", why=_words(fault))
    if missing:  # what else is wrong may follow from it
        return Checked(outcome="not checked", why=f"{_words(missing[0])}: the headers here are not all of ROCm's")
    for fault in after:
        if (fault.path, fault.said) not in known:
            return Checked(outcome="fails", why=_words(fault))
    if after:
        return Checked(outcome="not checked", why=f"without the patch it is no better: {_words(after[0])}")
    return Checked(outcome="passes")


def _words(fault: Fault) -> str:
    return f"{fault.path}:{fault.line}: {fault.said}"[:300]


def _faults(sandbox: Sandbox, side: str, path: str, mode: tuple[str, ...]) -> tuple[Fault, ...] | Checked:
    roots = [f"-I{side}/{root}" for root in ROOTS]
    argv = ["clang-tidy", "--quiet", "-checks=-*,clang-diagnostic-*,bugprone-use-after-move", f"{side}/{path}", "--"]
    process = sandbox.spawn([*argv, *mode, *roots])
    try:
        code = process.wait(LIMIT_S).code
    except Timeout:
        return Checked(outcome="not checked", why=f"clang-tidy was not done with {path} after {LIMIT_S:.0f} s")
    finally:
        process.stop(1.0)
    said = process.output(0, 1 << 20).decode(errors="replace")
    found = faults(said, side)
    if code and not found:
        last = said.strip().splitlines()[-1:] or [f"exit code {code}"]
        return Checked(outcome="not checked", why=f"clang-tidy could not look at it: {last[0][:200]}")
    return found


def faults(said: str, side: str) -> tuple[Fault, ...]:
    """The errors in clang-tidy's output; paths below `side` are those of the workspace."""
    return tuple(
        Fault(path=re.sub(rf"^(?:.*/)?{side}/", "", where), line=int(line), said=text)
        for where, line, text in _ERROR.findall(said)
    )


__all__ = ["Checked", "Checker", "Fault", "Texts", "check", "faults", "modes", "reached", "texts_of", "verdict"]
