"""`rocm-guard`: an include of a header that only CUDA has gets a guard, and ROCm its own header in the other branch.

Which includes those are is found by preprocessing the file as a ROCm compiler would: what a guard already hides, a
comment or a branch not taken is left alone. The result is preprocessed twice more: for ROCm no such include may be
left, for CUDA the text must come out unchanged. SGLang's own repair of the same kind: pull request 29373.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Any

from day0.runs.errors import Refused
from day0.tools.codemods.base import Change, Codemod, Source, holding

HIP = {
    "cuda.h": "hip/hip_runtime.h",
    "cuda_runtime.h": "hip/hip_runtime.h",
    "cuda_runtime_api.h": "hip/hip_runtime_api.h",
    "device_launch_parameters.h": "hip/hip_runtime.h",
    "cuda_fp16.h": "hip/hip_fp16.h",
    "cuda_bf16.h": "hip/hip_bf16.h",
    "cuda_fp8.h": "hip/hip_fp8.h",
    "cooperative_groups.h": "hip/hip_cooperative_groups.h",
    "cuComplex.h": "hip/hip_complex.h",
    "vector_types.h": "hip/hip_vector_types.h",
    "math_constants.h": "hip/hip_math_constants.h",
}
"""Headers of CUDA and what HIP has instead; everything of `cub/` is in one header of hipCUB."""
CUB = "hipcub/hipcub.hpp"
CUDA_ONLY = re.compile(
    r"<(?:cuda|cooperative_groups|cub/|thrust/|nvToolsExt|nvtx3/|nvrtc|cute/|cutlass/|curand|cublas|cudnn|cusparse)"
)
"""What else no ROCm has: to find it in force without a counterpart refuses the change."""
ROCM = ("USE_ROCM 1", "__HIP_PLATFORM_AMD__ 1", "__HIP__ 1", "__HIPCC__ 1")
CUDA = ("__CUDACC__ 1", "__NVCC__ 1")
COMPILERS = (ROCM, CUDA)
KERNELS = (
    "sglang/python/sglang/jit_kernel/csrc/elementwise/fused_metadata_copy.cuh",
    "sglang/python/sglang/kernels/jit/csrc/elementwise/fused_metadata_copy.cuh",
)
"""Kernels compiled at run time that are known to have gone unguarded, in the layouts of several releases."""
UPSTREAM = "sglang PR 29373"
MAX_FILES, MAX_CHARS = 8, 1 << 20
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:<([^>\n]+)>|"([^"\n]+)")')
_NAMED = re.compile(r"([\w+-]+\.(?:cuh|cu|hpp|h))\b(?::\d+)?(?::\d+)?: (?:fatal )?error")
_BESIDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([\w+./-]+)"', re.M)


def change(source: Source, config: Mapping[str, Any], evidence: str) -> Change:
    """Guards in the files that the evidence names, in the listed kernels without one, and in what stands beside them.

    Raises `Refused`: nothing to guard, a header without a counterpart, a result that does not hold.
    """
    del config
    new: dict[str, str] = {}
    headers: set[str] = set()
    for path in _files(source, evidence):
        text = source(path)
        if text is None or len(text) > MAX_CHARS:
            continue
        made, found = guarded(text, path)
        if found:
            new[path] = made
            headers |= found
    if not new:
        known = next((path.rpartition("/")[2] for path in KERNELS if source(path) is not None), "")
        if known:
            raise Refused(f"already upstream ({UPSTREAM}): {known} of this build has its ROCm guard: nothing to change")
        raise Refused("no kernel source here includes a CUDA header outside a ROCm guard: nothing to change")
    stems = {path.rpartition("/")[2].rpartition(".")[0] for path in new}
    gone = [f"'{header}' file not found" for header in headers] + [f"{stem} could not be built" for stem in stems]
    return Change(new, tuple(sorted(gone)))


def _files(source: Source, evidence: str) -> list[str]:
    """Where to look: named by the compiler's message, else listed, else whatever includes CUDA's runtime."""
    named = {path for name in _NAMED.findall(evidence) for path in holding(source, "include", name)}
    listed = [path for path in KERNELS if source(path) is not None]
    found: list[str] = sorted(named) or listed
    if not found:
        every = {p for names in ("*.cuh", "*.cu", "*.h") for p in holding(source, "cuda_runtime.h", names)}
        found = sorted(every) if len(every) <= MAX_FILES else []
    for path in found:  # grows while it is walked
        folder = path.rpartition("/")[0]
        for name in _BESIDE.findall(source(path) or ""):
            beside = f"{folder}/{name}"
            if ".." not in name and beside not in found and len(found) < MAX_FILES and source(beside) is not None:
                found.append(beside)
    return found


def guarded(text: str, path: str) -> tuple[str, set[str]]:
    """The text with its unguarded CUDA includes wrapped, and which headers those were. Raises `Refused`."""
    name = path.rpartition("/")[2]
    lines = text.splitlines(keepends=True)
    wanted: dict[int, str] = {}
    for number, written in included(text, path, ROCM):
        if foreign(written):
            header = written.strip('<>"')
            spelt = _INCLUDE.match(lines[number - 1]) if number <= len(lines) else None
            if spelt is None or header not in spelt.groups() or lines[number - 1].rstrip().endswith("\\"):
                raise Refused(f"{name}:{number}: the include of {header} is written in a way that can't be wrapped")
            wanted[number - 1] = header
    if not wanted:
        return text, set()
    out: list[str] = []
    run: list[int] = []
    end = "\r\n" if lines[0].endswith("\r\n") else "\n"
    for at, line in enumerate(lines):
        if at in wanted:
            run.append(at)
            if at + 1 in wanted:
                continue
            out += _wrapped([lines[n] for n in run], [wanted[n] for n in run], name, end)
            run = []
        else:
            out.append(line)
    made = "".join(out)
    _verify(text, made, path)
    return made, set(wanted.values())


def foreign(written: str) -> bool:
    """Whether an include, with its quotes or brackets, is of a header that no ROCm has."""
    return written.strip('<>"') in HIP or CUDA_ONLY.match(written) is not None


def _wrapped(lines: list[str], headers: list[str], name: str, end: str) -> list[str]:
    instead: list[str] = []
    for header in headers:
        hip = CUB if header.startswith("cub/") else HIP.get(header)
        if hip is None:
            raise Refused(f"{name} includes {header}, and no counterpart of it in HIP is known")
        if hip not in instead:
            instead.append(hip)
    whole = [line if line.endswith("\n") else line + end for line in lines]
    return [f"#ifndef USE_ROCM{end}", *whole, f"#else{end}", *(f"#include <{h}>{end}" for h in instead), f"#endif{end}"]


def _verify(old: str, new: str, path: str) -> None:
    left = [written for _, written in included(new, path, ROCM) if foreign(written)]
    if left:
        raise Refused(f"{path} still includes {left[0]} for ROCm after the change")
    before, after = (seen(text, path, CUDA) for text in (old, new))
    if before != after:
        raise Refused(f"{path} would change for CUDA too")


def included(text: str, path: str, macros: tuple[str, ...]) -> list[tuple[int, str]]:
    """(line, header with its quotes or brackets) of each include in force with these macros; no file is opened."""
    return _preprocessed(text, path, macros)[1]


def seen(text: str, path: str, macros: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """What a compiler sees, without blank lines, and the headers that it would read."""
    out, includes = _preprocessed(text, path, macros)
    return [line for line in out.splitlines() if line.strip()], [written for _, written in includes]


def _preprocessed(text: str, path: str, macros: tuple[str, ...]) -> tuple[str, list[tuple[int, str]]]:
    from pcpp import Preprocessor

    found: list[tuple[int, str]] = []

    class Reader(Preprocessor):  # type: ignore[misc]
        """Opens no file: an include is only noted."""

        def include(self, tokens: list[Any], original_line: object) -> Iterator[Any]:
            header = "".join(str(token.value) for token in tokens).strip()
            if header[:1] in {"<", '"'}:
                found.append((int(tokens[0].lineno), header))
            return iter(())

        def on_directive_unknown(self, directive: Any, toks: list[Any], *_: object) -> bool:
            return True

        def on_error(self, file: str, line: int, msg: str) -> None:
            """A damaged directive: the comparison of both sides decides."""

    reader, out = Reader(), StringIO()
    reader.line_directive = None
    for macro in macros:
        reader.define(macro)
    try:
        reader.parse(text, path)
        reader.write(out)
    except Exception as error:  # the preprocessor's own: it was given text that is no C
        raise Refused(f"{path} can't be preprocessed: {type(error).__name__}") from None
    return out.getvalue(), found


CODEMOD = Codemod(
    name="rocm-guard",
    title="Guard CUDA headers of a JIT kernel for ROCm",
    upstream=UPSTREAM,
    issue="jit-cuda-header",
    change=change,
)
