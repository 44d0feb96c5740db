"""Why a server failed: class, known issue and remedies, from its log.

The order of what was found: a cause goes before what only tells that something died, and that before what tells that
the server ran, but slowly or wrongly; then confidence, then what was logged first. A general form counts only in a log
of this stack: an error of some other program is `unknown`, not a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from day0.runs.engine_facts import EngineFacts
from day0.runs.facts import FailureClass
from day0.runs.values import Frozen
from day0.tools.known import KnownIssue, Remedy, known_issues
from day0.tools.scan import Scan, scan

EVIDENCE_CHARS = 400
TELLING_LINES = 3
UNKNOWN = "unknown"
ORDER = {"cause": 0, "death": 1, "quality": 2}
MARKS = (
    b"jinja2", b"/v1/chat", b"/v1/completions", b"warmup", b"MXFP", b"dequantiz", b"supports_mx",
    b"sglang", b"vllm", b"torch", b"aiter", b"hipError", b"libamdhip", b"hipcc", b"HIP ", b"ROCm", b"rocm", b"amdgpu",
    b"NCCL", b"RCCL", b"nccl", b"riton", b"transformers", b"safetensors", b"huggingface", b"gfx9", b"gfx1", b"CUDA",
    b"cuda", b"HSA", b"/dev/kfd", b"tokenizer", b"Decode batch", b"Prefill batch", b"#running-req", b"EngineCore",
    b"launch_server", b"uark", b"flashinfer", b"KV cache", b"MI3", b"checkpoint shards", b"cheduler", b"peculative",
    b"llama", b"Qwen", b"DeepSeek", b"GLM-", b"model-path", b"model_path", b"gsm8k", b"mooncake", b"hipblas",
    b"tilelang", b"SIGQUIT received", b"sigquit from a child", b"token/s", b"quantization block", b"MoE",
    b"gpu_memory_utilization", b"loaded_weight", b"ompute capability", b"attention backend", b"hat template",
)  # fmt: skip
"""Texts of which a log of a serving stack has at least one."""
_MEMORY = re.compile(
    r"total capacity of (?P<total>[\d.]+) GiB of which (?P<free>[\d.]+) (?P<unit>GiB|MiB|KiB|bytes) is free"
    r".*?(?P<own>[\d.]+) (?P<own_unit>GiB|MiB|KiB|bytes) is allocated by PyTorch"
    r"(?:, and (?P<kept>[\d.]+) (?P<kept_unit>GiB|MiB|KiB|bytes) is reserved)?"
)
GIB = {"GiB": 1.0, "MiB": 2.0**-10, "KiB": 2.0**-20, "bytes": 2.0**-30}
OTHERS_SHARE = 0.4
"""of a GPU's memory: more than the runtime, graphs and collectives of one server take beside PyTorch's own"""


class Diagnosis(Frozen):
    """What a log says.

    `issue` is `unknown` where no known issue matches; then `failure` may still be told by a general form, named in
    `form`. `confidence` is 0 only where the class is `unknown` too. `evidence` is one line, `telling` the lines that
    say most where the class is unknown.
    """

    failure: FailureClass
    issue: str = UNKNOWN
    confidence: float = 0.0
    evidence: str = ""
    cause: str = ""
    remedies: tuple[Remedy, ...] = ()
    upstream: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    """other documents that matched, most likely first"""
    form: str = ""
    tells: str = ""
    telling: tuple[str, ...] = ()


def diagnose(
    log: bytes | Iterable[bytes], *, facts: EngineFacts | None = None, learned: Sequence[KnownIssue] = ()
) -> Diagnosis:
    """The most likely reason that a log gives. Never raises for what stands in it.

    `facts` of the build leave out issues that it no longer has; `learned` are issues of earlier runs.
    """
    issues = [i for i in (*learned, *known_issues()) if i.signatures and i.may_apply(facts)]
    wanted = {p: None for i in issues for p in (*i.signatures, *i.needs, *i.without)}
    sure = {p for i in issues if not i.general or i.tells == "quality" for p in (*i.signatures, *i.needs, *i.without)}
    seen = scan(log, tuple(wanted), MARKS, frozenset(wanted.keys() - sure))
    found = sorted(
        ((i, at) for i in issues if (at := _at(i, seen)) >= 0),
        key=lambda pair: (ORDER[pair[0].tells], -pair[0].confidence, pair[1], pair[0].id),
    )
    if not found:
        told = tuple(_text(line) for line in seen.most_telling(TELLING_LINES))
        said = _text(seen.last_error()) or (told[-1] if told else _text(seen.last.text))
        return Diagnosis(failure=FailureClass.UNKNOWN, evidence=said, telling=told)
    first = found[0][0]
    line = _line(first, seen)
    held = first.failure == FailureClass.OOM and _held_by_others(line)
    return Diagnosis(
        failure=FailureClass.PORT_LEFTOVER if held else first.failure,
        issue=UNKNOWN if first.general or held else first.id,
        confidence=first.confidence,
        evidence=line,
        cause="Another process holds most of the GPU's memory." if held else first.cause,
        remedies=_FREE if held else first.remedies,
        upstream=() if held else tuple(f"{link.link} ({link.status})" for link in first.upstream),
        also=tuple(issue.id for issue, _ in found[1:]),
        form="vram-held-by-others" if held else first.id if first.general else "",
        tells=first.tells,
    )


_FREE = (Remedy(kind="wait", text="stop what is left of earlier servers, then start again"),)


def _at(issue: KnownIssue, seen: Scan) -> int:
    """The line on which an issue's first signature stands; -1: it does not hold."""
    if issue.general and not seen.marked:
        return -1
    if any(p not in seen.hits for p in issue.needs) or any(p in seen.hits for p in issue.without):
        return -1
    found = [seen.hits[p].number for p in issue.signatures if p in seen.hits]
    if issue.at_end and found:
        return seen.last.number if any(re.search(p.encode(), seen.last.text) for p in issue.signatures) else -1
    return min(found, default=-1)


def _line(issue: KnownIssue, seen: Scan) -> str:
    """The line that shows an issue: the error that ended a traceback where the signature is one of its frames."""
    hits = [seen.hits[p] for p in issue.signatures if p in seen.hits]
    first = min(hits, key=lambda line: line.number).text
    if (issue.tells == "death" or first.lstrip().startswith(b"File ")) and (error := seen.last_error()):
        return _text(error)
    return _text(first)


def _held_by_others(line: str) -> bool:
    """Whether PyTorch's own account of the memory says that most of it is held by somebody else."""
    found = _MEMORY.search(line)
    if found is None:
        return False
    total = float(found["total"])
    own = float(found["own"]) * GIB[found["own_unit"]]
    kept = float(found["kept"]) * GIB[found["kept_unit"]] if found["kept"] else 0.0
    return total - float(found["free"]) * GIB[found["unit"]] - own - kept > OTHERS_SHARE * total


def count_lines(pattern: bytes, log: bytes) -> int:
    """How many lines of a log match, for lines that tell of a slow path."""
    return sum(1 for line in log.splitlines() if re.search(pattern, line)) if re.search(pattern, log) else 0


def _text(line: bytes) -> str:
    return line.decode(errors="replace")[:EVIDENCE_CHARS]
