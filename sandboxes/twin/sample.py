"""Worlds drawn at random: a model nobody released on a node whose truth, faults and best layout nobody wrote down."""

from __future__ import annotations

import random
from math import exp, prod

from day0.runs import geometry as geo
from day0.runs import yaml_text
from day0.runs.workload import Slo, Workload
from day0.sandboxes.twin import manners, oracle, rate, resolve, scaled
from day0.sandboxes.twin.conditions import Check, When, holds
from day0.sandboxes.twin.mishaps import MISHAPS, flags
from day0.sandboxes.twin.parts import Build, Defaults, ModelSpec, NodeSpec, Tuned
from day0.sandboxes.twin.truth import Effect, Noise, Speculation, Truth
from day0.sandboxes.twin.world import Choice, World, world

BASES = (
    "deepseek-r1-deadlock",
    "deepseek-v3.2-hidden-caps",
    "glm-5.2",
    "gpt-oss-120b-missing-tag",
    "kimi-k2.5-fast-and-wrong",
    "kimi-k2.5-mxfp4-dying-node",
    "llama-3.1-405b-oom",
    "llama-3.1-70b-leftover",
    "minimax-m2.5-bursts",
    "minimax-m3-flaky-registry",
    "qwen3.5-slow-start",
)
SHARES = ("prompt", "attention", "matrix", "memory", "cache", "link")
TIMES = ("layer_us", "moe_us", "step_us", "reduce_us", "prompt_us", "draft", "draft_us")
IMAGE = "lmsysorg/sglang-rocm:v0.5.23-rocm720-mi35x-20261030"
TRIES = 60
FEWEST = 4
"""Candidates of the space that must be able to serve, so that a world can be solved and not only by luck."""
LARGEST = ((8e9, 32), (20e9, 64), (1e15, 128))
"""Candidates of a space by the parameters that a token multiplies with: small models serve, and are simulated at, high
rates."""
WORTH_IT = 1.3
"""How much better than the first candidate the best must be, by the fluid estimate: something is there to find. Reports
tell of 1.8 (GLM-5.2 from its defaults to tuned replicas), 1.72 (one wrong inherited flag taken away) and about 3
(speculation)."""
LIKELY = 0.6
"""of the fluid estimate that the first candidate must reach"""
FULL = 0.75
"""of a node's memory that weights may take"""
SHAPE = Workload(
    name="shape",
    input_tokens=20_000,
    output_tokens=1000,
    prefixes=32,
    cached_share=0.6,
    slo=Slo(ttft_ms=5000.0, tpot_ms=50.0),
)
"""What a drawn world must serve: long prompts, limits as of the shipped workload of that shape."""


def sample(seed: int) -> World:
    """The world of that number: equal numbers, equal worlds.

    Its first candidate serves, so do four at least, and the best is better by more than noise. Flags solve it, with
    tuned rows where it has fallbacks.
    """
    for attempt in range(TRIES):
        drawn = _draw(random.Random(f"world {seed} {attempt}"), seed)
        if _solvable(drawn):
            return drawn
    return drawn.model_copy(update={"faults": ()})


def _draw(rng: random.Random, seed: int) -> World:
    base = world(rng.choice(BASES))
    model = scaled.draw(rng, base.model, f"sample-{seed}")
    tuned = Tuned(tune_s=round(rng.uniform(600.0, 2400.0))) if base.tuned or _falls_back(rng, model) else None
    widths = _widths(model)
    truth = _truth(rng, base.truth, model, widths, fallback=tuned is not None)
    count = rng.choices((0, 1, 2, 3, 4), (1, 3, 4, 4, 2))[0]
    noise = Noise(
        boot=round(rng.uniform(0.003, 0.015), 4),
        point=round(rng.uniform(0.002, 0.008), 4),
        burst=rng.choice((0.0, 0.0, 0.0, 0.05)),
    )
    quiet = rng.choice((2048, 2048, 512, 64))
    return World(
        name=f"sample-{seed}",
        summary=f"drawn with seed {seed} after {base.name}",
        solved_by="tuning" if tuned else "flags",
        node=NodeSpec(),
        model=model,
        builds=(Build(name=IMAGE, packages={"torch": "2.11.0", "aiter": "0.1.8", "triton": "3.7.0"}),),
        defaults=Defaults(running=quiet, running_speculative=min(quiet, rng.choice((48, 48, 24)))),
        truth=truth,
        tuned=tuned,
        noise=noise,
        faults=tuple(make(rng, widths) for make in rng.sample(MISHAPS, count)),
        space=_space(rng, model, widths, tuned=tuned is not None),
    )


def _falls_back(rng: random.Random, model: ModelSpec) -> bool:
    return model.precision == "fp4" and model.geometry.experts > 0 and rng.random() < 0.5


def _widths(model: ModelSpec) -> tuple[int, ...]:
    """Ranks of tensor parallelism that hold the weights, widest first."""
    node = NodeSpec()
    room = node.memory_bytes * FULL
    fit = [w for w in (8, 4, 2, 1) if geo.weight_bytes_per_gpu(model.geometry, model.precision, w) < room]
    return tuple(w for w in fit if model.geometry.heads % w == 0)


def _truth(rng: random.Random, base: Truth, model: ModelSpec, widths: tuple[int, ...], *, fallback: bool) -> Truth:
    """Efficiencies around the base's; one width of tensor parallelism suits the kernels, another does not."""
    told = base.model_dump()
    for name in SHARES:
        told[name] = round(min(0.9, max(0.02, told[name] * exp(rng.gauss(0.0, 0.25)))), 4)
    for name in TIMES:
        told[name] = round(told[name] * exp(rng.gauss(0.0, 0.2)), 2)
    effects = [
        Effect(name=f"kernels at {w} ranks", when=_width(w), time={"experts": f, "prompt": round(f**0.7, 3)})
        for w, f in zip(widths, _spread(rng, len(widths)), strict=True)
    ]
    effects += [
        Effect(
            name="the fused all-reduce",
            when=When(flags=flags(enable_aiter_allreduce_fusion=Check(equals=True))),
            time={"reduce": round(rng.uniform(0.8, 1.05), 3), "layer": round(rng.uniform(0.95, 1.01), 3)},
        ),
        Effect(
            name="an FP8 cache",
            when=When(flags=flags(kv_cache_dtype=Check(equals="fp8_e4m3"))),
            time={"cache": round(rng.uniform(0.9, 2.2), 2), "layer": round(rng.uniform(0.99, 1.04), 3)},
        ),
    ]
    effects += manners.effects(rng, model)
    drafts = model.geometry.draft_layers > 0
    chance = round(rng.uniform(0.6, 0.92), 3) if drafts else 0.0
    told |= {"effects": tuple(effects), "untuned": round(rng.uniform(1.2, 2.0), 2) if fallback else 1.0}
    told["speculation"] = Speculation(chance=chance, fade=round(rng.uniform(0.85, 1.0), 3))
    return Truth(**told)


def _spread(rng: random.Random, count: int) -> list[float]:
    return [round(exp(rng.gauss(0.0, 0.2)), 3) for _ in range(count)]


def _width(ranks: int) -> When:
    return When(flags=flags(tp_size=Check(equals=ranks)))


def _space(
    rng: random.Random, model: ModelSpec, widths: tuple[int, ...], *, tuned: bool
) -> tuple[tuple[Choice, ...], ...]:
    """Layouts, drafts, rows and two or three small axes; not more than the oracle can rate in a second or two."""
    layouts = [Choice(flags={"tp-size": w, "dp-size": 8 // w}) for w in widths]
    if any(group.absorbed is not None for group in model.geometry.groups):
        layouts.append(Choice(flags={"tp-size": 8, "dp-size": 1, "attn-dp-size": 8}))
    if model.geometry.experts and (wide := [w for w in widths if w > 1 and model.geometry.experts % w == 0]):
        ranks = rng.choice(wide)
        layouts.append(Choice(flags={"tp-size": ranks, "dp-size": 8 // ranks, "ep-size": ranks}))
    axes = [tuple(layouts)]
    if model.geometry.draft_layers:
        axes.append((Choice(), _drafts(3, 0), *(_drafts(steps, 256) for steps in (1, 3, 5))))
    else:
        axes.append((Choice(), Choice(flags={"max-running-requests": 256})))
    if tuned:
        axes.append((Choice(tuned=False), Choice(tuned=True)))
    small: list[dict[str, bool | int | str]] = [
        {"chunked-prefill-size": 32768},
        {"kv-cache-dtype": "fp8_e4m3"},
        {"enable-aiter-allreduce-fusion": True},
    ]
    most = next(count for limit, count in LARGEST if model.geometry.active_parameters < limit)
    for given in rng.sample(small, 3):
        if prod(map(len, axes)) * 2 <= most:
            axes.append((Choice(), Choice(flags=given)))
    return tuple(axes)


def _drafts(steps: int, cap: int) -> Choice:
    given = {"speculative-algorithm": "EAGLE", "speculative-num-steps": steps, "speculative-eagle-topk": 1}
    given |= {"speculative-num-draft-tokens": steps + 1, "disable-custom-all-reduce": True}
    return Choice(flags={**given, "max-running-requests": cap} if cap else given)


def _solvable(drawn: World) -> bool:
    picks = list(oracle.candidates(drawn))
    worths = [_worth(drawn, pick) for pick in picks]
    best = max(worths)
    if sum(w > 0 for w in worths) < FEWEST or not worths[0] or best < WORTH_IT * worths[0]:
        return False
    first = oracle.rated(drawn, SHAPE, picks[0])
    if first.rate_rps < LIKELY * worths[0]:
        return False  # it serves, if at all, at a rate that a search would hardly look at
    return oracle.rated(drawn, SHAPE, picks[worths.index(best)]).tok_s > (1 + WORTH_IT) / 2 * first.tok_s


def _worth(drawn: World, pick: oracle.Pick) -> float:
    """Requests/s by the fluid estimate; 0 where it does not serve."""
    made = oracle.server(drawn, SHAPE, pick)
    return 0.0 if isinstance(made, str) else rate.estimate(made[0], SHAPE) / made[1]


def serving(found: World) -> int:
    """How many candidates of the space boot, fit and answer rightly, as far as that is known without playing them."""
    count = 0
    for pick in oracle.candidates(found):
        try:
            args = oracle.arguments(found, pick.flags, pick.build)
        except (resolve.Usage, resolve.Fatal):
            continue
        seen = oracle.seen_by(found, pick, args)
        spoilt = any(f.kind not in ("slow_start", "slow") and holds(f.when, seen) for f in found.faults)
        count += not spoilt and args["max_total_num_tokens"] > 0
    return count


def render(found: World) -> str:
    """The document."""
    return yaml_text.write({"schema": "day0/world/v1", **found.model_dump(mode="json", exclude_defaults=True)})
