"""Shapes of aiter's fused expert kernels: which ones a server ran without tuned rows, by its log or by the model alone.

aiter looks a row up by accelerator, compute units, padded tokens, model width, inner width, experts and experts per
token of a rank, kinds of numbers. Parallelism divides inner width and experts; fusing the shared expert makes
(experts, k) into (experts + 1, k + 1), so a table made for one does not serve the other. Line forms as aiter and SGLang
print them in 2026 (ROCm/aiter `fused_moe.py`, SGLang's `fused_moe_triton`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from day0.runs.engine_facts import ModelFacts
from day0.runs.errors import Refused
from day0.runs.values import Frozen, Map
from day0.runs.workload import FlagValue
from pydantic import Field

UNTUNED_HEADER = (
    "token,model_dim,inter_dim,expert,topk,act_type,dtype,q_dtype_a,q_dtype_w,q_type,use_g1u1,doweight_stage1"
)
UNITS = {"gfx950": 256, "gfx942": 304}
"""Compute units of the accelerators that have one number of them: MI355X, MI300X and MI325X."""
FP4 = ("torch.float4_e2m1fn_x2", "torch.float4_e2m1fn_x2", "QuantType.per_1x32")
FP8_BLOCK = ("torch.float8_e4m3fn", "torch.float8_e4m3fn", "QuantType.per_1x128")
FP8_TOKEN = ("torch.float8_e4m3fn", "torch.float8_e4m3fn", "QuantType.per_Token")
PLAIN = ("torch.bfloat16", "torch.bfloat16", "QuantType.No")
CHUNK = 16384
"""Prompt tokens of one step where nothing else is known: SGLang's default on a node of this size."""
MOST_TOKENS = (32768, 131072)
"""Above the first power-of-two sizes end and one more size follows."""
MAX_LINES, MAX_KEY = 200_000, 600


class Shape(Frozen):
    """One key of the tuned table, without accelerator and compute units."""

    token: int = Field(ge=1, le=1 << 20)
    model_dim: int = Field(ge=1, le=1 << 20)
    inter_dim: int = Field(ge=1, le=1 << 20)
    expert: int = Field(ge=1, le=1 << 16)
    topk: int = Field(ge=1, le=1 << 10)
    act_type: str = "ActivationType.Silu"
    dtype: str = "torch.bfloat16"
    q_dtype_a: str = FP4[0]
    q_dtype_w: str = FP4[1]
    q_type: str = FP4[2]
    use_g1u1: int = Field(default=1, ge=0, le=1)
    doweight_stage1: int = Field(default=0, ge=0, le=1)

    def row(self) -> str:
        """A line of the untuned table."""
        return ",".join(str(getattr(self, name)) for name in UNTUNED_HEADER.split(","))

    def key(self) -> tuple[str, ...]:
        """What a table knows it by."""
        return tuple(self.row().split(","))

    def at(self, tokens: int) -> Shape:
        """The same kernel for another batch."""
        return self.model_copy(update={"token": tokens})

    def said(self) -> str:
        """For people."""
        kinds = "" if self.q_type == FP4[2] else f" {self.q_type.removeprefix('QuantType.')}"
        return f"{self.token} x ({self.model_dim}, {self.inter_dim}, {self.expert}, {self.topk}){kinds}"


class Untuned(Frozen):
    """What runs without tuned rows. `shapes` are of fused expert kernels; of other kernels only lines are counted."""

    shapes: tuple[Shape, ...] = ()
    tuned: tuple[Shape, ...] = Field(default=(), description="seen with a tuned row")
    arch: str = ""
    chunk: int = Field(default=CHUNK, ge=1, description="prompt tokens of one step at most")
    gemm: Map[int] = Field(default_factory=dict, description="table -> how many shapes of it ran on a default kernel")
    others: Map[int] = Field(default_factory=dict, description="other lines of a slow path, by kind")
    source: str = Field(default="log", description="log, or facts: nothing was booted yet")

    @property
    def coverage(self) -> float | None:
        """Share of the fused expert shapes seen that had a tuned row; None: none was seen."""
        count = len(self.shapes) + len(self.tuned)
        return len(self.tuned) / count if count else None

    def wanted(self) -> tuple[Shape, ...]:
        """The shapes for every padded batch up to the chunk, smallest first: a log names only batches that came.

        At least up to the engine's default chunk, so that a table goes on serving when a later candidate raises it.
        """
        kernels = dict.fromkeys(shape.at(1) for shape in self.shapes)
        have = set(self.tuned)
        every = {kernel.at(tokens) for kernel in kernels for tokens in padded(max(self.chunk, CHUNK))} | set(
            self.shapes
        )
        return tuple(sorted(every - have, key=lambda s: (s.key()[1:], s.token)))


def padded(most: int) -> tuple[int, ...]:
    """The batch sizes that aiter looks up for up to `most` tokens."""
    sizes, size = [], 1
    while size < MOST_TOKENS[0]:
        sizes.append(size)
        if size >= most:
            return tuple(sizes)
        size *= 2
    sizes.append(MOST_TOKENS[0])
    return (*sizes, MOST_TOKENS[1]) if most > MOST_TOKENS[0] else tuple(sizes)


_KEY = rb"\(([^()]{1,%d})\)" % MAX_KEY
_DEFAULT = re.compile(rb"\[fused_moe\] using [12]stage default for " + _KEY)
_FALLBACK = re.compile(rb"\[fused_moe\] no tuned FlyDSL config for " + _KEY)
_TUNED = re.compile(rb"\[fused_moe\] using [12]stage \([^()]{0,1000}\) for " + _KEY)
_GEMM = re.compile(
    rb"shape (?:is )?M:\s*(\d+), N:\s*(\d+), K:\s*(\d+).{0,200}?"
    rb"not found tuned config in (?:\S*/)?(CKGEMM|[\w.-]+\.csv)?"
)
_CHUNK = re.compile(rb"\bchunked_prefill_size=(\d{1,9})\b")
_OTHERS = (
    ("fmoe shapes that the tuner can't do", re.compile(rb"Fmoe tuning not support for ")),
    (
        "Triton expert kernels on the default",
        re.compile(rb"Using default MoE kernel config\. "),
    ),
    ("kernels of a row that is not built", re.compile(rb"ck kernel not found: ")),
)


def untuned(log: bytes) -> Untuned:
    """From a server's log. Lines of any other kind, damaged keys and repeats are passed over."""
    missing: dict[Shape, None] = {}
    have: dict[Shape, None] = {}
    gemm: dict[str, set[tuple[bytes, ...]]] = {}
    others: dict[str, set[bytes]] = {}
    arch, chunk = "", 0
    for line in log.splitlines()[:MAX_LINES]:
        if b"fused_moe]" in line:
            found = _DEFAULT.search(line) or _FALLBACK.search(line)
            hit = None if found else _TUNED.search(line)
            key = found or hit
            parsed = parse_key(key[1].decode(errors="replace")) if key else None
            if parsed is not None:
                arch = arch or parsed[0]
                (missing if found else have)[parsed[1]] = None
        elif gone := _GEMM.search(line):
            gemm.setdefault((gone[4] or b"a GEMM table").decode(), set()).add(gone.groups()[:3])
        elif told := _CHUNK.search(line):
            chunk = max(chunk, int(told[1]))
        else:
            for kind, pattern in _OTHERS:
                if at := pattern.search(line):
                    others.setdefault(kind, set()).add(line[at.start() :])
    return Untuned(
        shapes=tuple(missing),
        tuned=tuple(shape for shape in have if shape not in missing),
        arch=arch,
        chunk=chunk or CHUNK,
        gemm={name: len(found) for name, found in gemm.items()},
        others={name: len(found) for name, found in others.items()},
    )


def parse_key(text: str) -> tuple[str, Shape] | None:
    """(accelerator or "", shape) of a key as aiter prints it; older ones begin with the compute units. None: no key."""
    words = [word.strip().strip("'\"") for word in text.split(",")]
    arch = words.pop(0) if words and words[0].startswith("gfx") else ""
    names = UNTUNED_HEADER.split(",")
    if len(words) < 1 + len(names) or not words[0].isdigit():
        return None
    if not arch:
        arch = next((name for name, units in UNITS.items() if units == int(words[0])), "")
    fields: dict[str, Any] = dict(zip(names, words[1:], strict=False))
    for name in names[-2:]:
        fields[name] = {"True": 1, "False": 0, "1": 1, "0": 0}.get(fields[name])
    try:
        return arch, Shape.model_validate(fields)
    except ValueError:
        return None


def untuned_of(model: ModelFacts, flags: Mapping[str, FlagValue]) -> Untuned:
    """From a model's facts and a layout, before anything is booted: every batch of every key that it may ask for.

    Both keys, with the shared expert fused and without, unless a flag decides. Raises `Refused` for a model without
    experts.
    """
    if not model.experts or not model.moe_intermediate or not model.experts_per_token:
        raise Refused(f"{model.model} has no experts: there is nothing to tune for it")
    tp, ep = _int(flags, "tp-size", 1), _int(flags, "ep-size", 1)
    if str(flags.get("moe-a2a-backend", "none")) != "none":
        ep = tp
    moe_tp = max(1, tp // max(1, ep) // max(1, _int(flags, "moe-dp-size", 1)))
    chunk = _int(flags, "chunked-prefill-size", CHUNK)
    kinds = _kinds(model.quantization or "")
    base: dict[str, Any] = {"model_dim": model.hidden, "inter_dim": max(1, model.moe_intermediate // moe_tp)}
    base |= dict(zip(("q_dtype_a", "q_dtype_w", "q_type"), kinds, strict=True))
    shapes = [
        Shape(token=1, expert=max(1, model.experts // max(1, ep)) + more, topk=model.experts_per_token + more, **base)
        for more in _fusions(model, flags)
    ]
    most = max(chunk, CHUNK)
    every = [shape.at(tokens) for shape in shapes for tokens in padded(most)]
    return Untuned(shapes=tuple(every), chunk=most, source="facts")


def _fusions(model: ModelFacts, flags: Mapping[str, FlagValue]) -> Iterable[int]:
    if not model.shared_experts or flags.get("disable-shared-experts-fusion"):
        return (0,)
    return (model.shared_experts,) if flags.get("enforce-shared-experts-fusion") else (model.shared_experts, 0)


def _kinds(quantization: str) -> tuple[str, str, str]:
    name = quantization.lower()
    if "fp4" in name:
        return FP4
    if "fp8" in name:
        return FP8_TOKEN if "token" in name or "channel" in name or "quark" in name else FP8_BLOCK
    return PLAIN


def _int(flags: Mapping[str, FlagValue], name: str, default: int) -> int:
    try:
        return int(flags.get(name, default))
    except (TypeError, ValueError):
        return default
