"""Whether a candidate can fit the node at all: shapes, cores or accelerators, memory. Only what is known refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from day0.runs.candidate import Candidate

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView
    from day0.runs.engine_facts import ModelFacts

# Bytes of one accelerator as its driver reports them (8 x gfx950 under ROCm 7: 309,220,868,096 each).
ACCELERATOR_BYTES = {"mi355x": 309_220_868_096, "mi325x": 274_000_000_000, "mi300x": 206_000_000_000}
# A server process without weights: interpreter, libraries, tokenizer, buffers (measured 2.1 GB on a CPU).
PROCESS_BYTES = 2_100_000_000
WIDTH = {"float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2, "bf16": 2}
SPECULATION = ("speculative-num-steps", "speculative-eagle-topk", "speculative-num-draft-tokens")


def number(value: object, default: float) -> float:
    """The value as a number, or the default where it is none."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return default


def whole(candidate: Candidate, name: str, default: int = 1) -> int:
    """An integer flag."""
    return int(number(candidate.flags.get(name), default))


def misfit(candidate: Candidate, view: RunView) -> str:
    """Why the candidate can't run on this node; empty where nothing speaks against it."""
    return _shapes(candidate, view.model) or _devices(candidate, view) or _pairs(candidate) or _memory(candidate, view)


def _shapes(candidate: Candidate, model: ModelFacts) -> str:
    tp, dp, pp = (whole(candidate, f"{k}-size") for k in ("tp", "dp", "pp"))
    if min(tp, dp, pp) < 1:
        return "tp, dp and pp sizes are at least 1"
    if model.heads % tp:
        return f"{model.heads} attention heads can't be split over tp-size {tp}"
    if (attn := whole(candidate, "attn-dp-size")) > 1 and tp % attn:
        return f"attn-dp-size {attn} must divide tp-size {tp}"
    if (ep := whole(candidate, "ep-size")) > 1 and (not model.experts or model.experts % ep or tp % ep):
        return f"ep-size {ep} must divide {model.experts} experts and tp-size {tp}"
    return ""


def _devices(candidate: Candidate, view: RunView) -> str:
    target = view.request.target
    held = candidate.gpus_held
    if target.accelerator == "cpu":
        cores = len(target.server_cores) or view.node.cores or 0
        if cores and held > cores:
            return f"tp x dp x pp = {held} ranks need as many cores, the server has {cores}"
        threads = number(candidate.env.get("OMP_NUM_THREADS"), 1)
        if cores and threads > cores:
            return f"{threads:.0f} threads for {cores} server cores"
        return ""
    gpus = target.gpus or view.node.gpus
    return f"tp x dp x pp = {held} accelerators, the node has {gpus}" if gpus and held > gpus else ""


def _pairs(candidate: Candidate) -> str:
    flags = candidate.flags
    given = [name for name in SPECULATION if name in flags]
    algorithm = str(flags.get("speculative-algorithm", ""))
    if given and not algorithm:
        return f"--{given[0]} without --speculative-algorithm does nothing"
    if algorithm in {"EAGLE", "EAGLE3", "NEXTN"} and given and len(given) < len(SPECULATION):
        return "speculation takes its three depth flags together or none: steps, eagle-topk, num-draft-tokens"
    if len(given) == len(SPECULATION) and whole(candidate, SPECULATION[1]) == 1:
        steps, drafts = whole(candidate, SPECULATION[0]), whole(candidate, SPECULATION[2])
        if drafts != steps + 1:
            return f"with eagle-topk 1, num-draft-tokens must be num-steps + 1 = {steps + 1}"
    chunk, page = whole(candidate, "chunked-prefill-size", 0), whole(candidate, "page-size")
    if chunk > 0 and page > 1 and chunk % page:
        return f"chunked-prefill-size {chunk} must be a multiple of page-size {page}"
    for on, off in (("enforce-shared-experts-fusion", "disable-shared-experts-fusion"),):
        if flags.get(on) and flags.get(off):
            return f"--{on} and --{off} contradict each other"
    fraction = number(flags.get("mem-fraction-static"), 0.5)
    return "" if 0 < fraction < 1 else "mem-fraction-static is a share between 0 and 1"


def _memory(candidate: Candidate, view: RunView) -> str:
    weights = view.model.weight_bytes
    if weights is None:
        return ""
    wide = WIDTH.get(str(candidate.flags.get("dtype", "")), 0) / WIDTH.get(view.model.dtype, 2)
    if wide > 0 and not view.model.quantization:
        weights = int(weights * wide)
    split = whole(candidate, "tp-size") * whole(candidate, "pp-size")
    if view.request.target.accelerator == "cpu":
        total, copies = view.node.memory_bytes, whole(candidate, "dp-size")
        ranks = candidate.gpus_held
        needed = weights * copies + PROCESS_BYTES * ranks
        if total is not None and needed > 0.9 * total:
            return f"weights and processes need {needed / 1e9:.1f} GB, the node has {total / 1e9:.1f} GB"
        return ""
    room = ACCELERATOR_BYTES.get(view.request.target.accelerator)
    if room is not None and weights / split > 0.92 * room:
        return f"{weights / split / 1e9:.0f} GB of weights per accelerator don't fit into {room / 1e9:.0f} GB"
    return ""
