"""What will break on a model's first day, told from its files before a GPU is booked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from day0.runs.engine_facts import ModelFacts
from day0.runs.geometry import Geometry, Precision
from day0.runs.values import Frozen
from day0.tools.forecast.hardware import Hardware, document
from day0.tools.forecast.point import SILENT_CAP
from pydantic import Field

AITER_HEADS = (16, 128)
"""Heads per rank for which SGLang picks aiter's latent-attention kernels on ROCm; others fall to Triton."""

INDEXED_PAGE = 64
"""Page size that sparse-attention kernels need (`page_size` of observed boots)."""


class Omen(Frozen):
    """One expected problem."""

    kind: str = Field(description="architecture, exclude, nextn, moe_shape, heads, page, cap or files")
    text: str


def omens(
    geometry: Geometry, facts: ModelFacts | None, silicon: Hardware, precisions: Sequence[Precision], *,
    architecture: str = "", version: str = "",
) -> tuple[Omen, ...]:  # fmt: skip
    """Every expected problem, most serious first. `version` is the engine's; empty = the surveyed build."""
    known: dict[str, Any] = document("architectures.yaml")
    name = facts.architecture if facts is not None else architecture
    found = [
        *_architecture(name, known),
        *(_exclude(facts, geometry, known, version) if facts is not None else ()),
        *_nextn(name, geometry, known),
        *(_moe(geometry, known) if silicon.vendor == "amd" and "fp4" in precisions else ()),
        *_heads(geometry, silicon),
        *_cap(geometry, silicon),
        *(Omen(kind="files", text=text) for text in (facts.warnings if facts is not None else ())),
    ]
    return tuple(found)


def _architecture(name: str, known: dict[str, Any]) -> list[Omen]:
    if not name:
        return [Omen(kind="architecture", text="the architecture's name is not known here: give the model's folder")]
    if name in known["architectures"]:
        return []
    text = f"{known['build']} does not know the architecture {name}: it will not load without an engine patch"
    return [Omen(kind="architecture", text=text)]


def _exclude(facts: ModelFacts, geometry: Geometry, known: dict[str, Any], version: str) -> list[Omen]:
    """Entries of the quantisation's exclude list that the draft model's runtime names will not match."""
    if not facts.exclude or not geometry.draft_layers:
        return []
    pattern = re.compile(rf"(?:re:)?model\.layers\.({geometry.layers}|{geometry.layers + geometry.draft_layers - 1})\.")
    draft = [entry for entry in facts.exclude if pattern.match(entry)]
    runtime = [e for e in facts.exclude if re.match(r"(?:re:)?model\.(decoder|eh_proj|enorm|hnorm|shared_head)\b", e)]
    fixed = str(known["draft_exclude_fixed_in"])
    if not draft or runtime or (version and _order(version) >= _order(fixed)) or geometry.layers == 61:
        return []
    text = (
        f"{len(draft)} exclude entries name the draft layer as `model.layers.{geometry.layers}.*`, which an "
        f"engine before {fixed} calls `model.decoder.*`: it would load unquantised weights as quantised (sglang#30265)"
    )
    return [Omen(kind="exclude", text=text)]


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version)[:3])


def _nextn(name: str, geometry: Geometry, known: dict[str, Any]) -> list[Omen]:
    if not geometry.draft_layers or not name:
        return []
    draft = known["drafts"].get(name)
    if draft is None and f"{name}NextN" in known["draft_classes"]:
        draft = f"{name}NextN"
    if draft in known["draft_classes"]:
        return []
    text = f"the checkpoint holds {geometry.draft_layers} prediction layer(s); {known['build']} names no class for them"
    return [Omen(kind="nextn", text=text)]


def _moe(geometry: Geometry, known: dict[str, Any]) -> list[Omen]:
    if not geometry.experts:
        return []
    tuned = {tuple(shape) for shape in known["tuned_fp4"]}
    plain = (geometry.hidden, geometry.experts, geometry.experts_per_token)
    fused = (geometry.hidden, geometry.experts + 1, geometry.experts_per_token + 1)
    if plain in tuned:
        return []
    if fused in tuned:
        text = (
            f"FP4 experts have tuned rows only with the shared expert fused ({fused[1]} experts, top-{fused[2]}): "
            f"with fusion off ({plain[1]}, {plain[2]}) a heuristic kernel runs, silently"
        )
    else:
        text = (
            f"no tuned FP4 rows known for hidden {plain[0]}, {plain[1]} experts, top-{plain[2]}: "
            "heuristic kernels run until rows are tuned"
        )
    return [Omen(kind="moe_shape", text=text)]


def _heads(geometry: Geometry, silicon: Hardware) -> list[Omen]:
    out = []
    latent = any(group.absorbed is not None for group in geometry.groups)
    if silicon.vendor == "amd" and latent:
        slow = [tp for tp in (1, 2, 4, 8) if geometry.heads % tp == 0 and geometry.heads // tp not in AITER_HEADS]
        if slow:
            ranks = ", ".join(f"TP{tp} ({geometry.heads // tp})" for tp in slow)
            text = f"aiter's latent attention takes 16 or 128 heads a rank; {ranks} fall back to Triton"
            out.append(Omen(kind="heads", text=text))
    if any(group.index for group in geometry.groups):
        text = f"sparse attention needs --page-size {INDEXED_PAGE} and a BF16 or FP8 (e4m3) cache"
        out.append(Omen(kind="page", text=text))
    return out


def _cap(geometry: Geometry, silicon: Hardware) -> list[Omen]:
    if not geometry.draft_layers or silicon.vendor != "amd":
        return []
    text = (
        f"with speculation SGLang runs at most {SILENT_CAP} requests a replica unless --max-running-requests says "
        "more; forecasts of +MTP layouts keep that cap"
    )
    return [Omen(kind="cap", text=text)]
