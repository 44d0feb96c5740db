"""Worlds drawn at random: a shipped model on a node whose truth, faults and best layout nobody wrote down."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import exp

from day0.runs import yaml_text
from day0.sandboxes.twin import oracle, resolve
from day0.sandboxes.twin.conditions import Check, When, holds
from day0.sandboxes.twin.truth import Effect, Noise, Speculation, Truth
from day0.sandboxes.twin.world import Fault, NodeSpec, Tuned, World, world

BASES = (
    "glm-5.2",
    "deepseek-r1-deadlock",
    "qwen3.5-slow-start",
    "kimi-k2.5-fast-and-wrong",
    "minimax-m2.5-bursts",
    "llama-3.1-70b-leftover",
)
SHARES = ("prompt", "attention", "matrix", "memory", "cache", "link")
TIMES = ("layer_us", "moe_us", "step_us", "reduce_us", "prompt_us", "draft", "draft_us")
TRIES = 50
FEWEST = 4
"""Candidates of the space that must be able to serve, so that a world can be solved and not only by luck."""
Draw = Callable[[random.Random], Fault]


def _on(**flags: Check) -> dict[str, Check]:
    return {name.replace("_", "-"): check for name, check in flags.items()}


def _deadlock(rng: random.Random) -> Fault:
    flags = _on(speculative_algorithm=Check(absent=False), disable_custom_all_reduce=Check(absent=True))
    when = When(flags=flags, running=rng.choice((8, 16, 32)))
    return Fault(name="verification dead-locks with the custom all-reduce under load", kind="hang", when=when)


def _deep_drafts(rng: random.Random) -> Fault:
    line = "AttributeError: 'NoneType' object has no attribute 'zero_'"
    when = When(flags=_on(speculative_num_steps=Check(at_least=rng.choice((4, 5)))))
    return Fault(name="deep drafts are not captured", kind="crash", stage="graph", when=when, log=(line,))


def _wrong_cache(rng: random.Random) -> Fault:
    when, share = When(flags=_on(kv_cache_dtype=Check(equals="fp8_e4m3"))), round(rng.uniform(0.15, 0.7), 2)
    pace = round(rng.uniform(0.75, 1.0), 2)
    return Fault(name="an FP8 cache loses the thread", kind="wrong_output", when=when, wrong_share=share, time=pace)


def _wide_chunks(rng: random.Random) -> Fault:
    line = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 9.00 GiB."
    when = When(flags=_on(chunked_prefill_size=Check(at_least=rng.choice((30000, 60000)))), running=rng.choice((4, 24)))
    return Fault(name="wide chunks run out of memory under load", kind="oom", when=when, log=(line,), exit_code=1)


def _slow_start(rng: random.Random) -> Fault:
    return Fault(
        name="kernels compile in silence", kind="slow_start", stage="graph", seconds=rng.choice((300.0, 900.0))
    )


def _fallback(rng: random.Random) -> Fault:
    line = "[aiter] shape is M:512, N:4096, K:7168, not found tuned config in /tmp/a.csv, will use default config!"
    when, factor = When(flags=_on(tp_size=Check(equals=rng.choice((2, 4, 8))))), round(rng.uniform(1.1, 1.5), 2)
    return Fault(
        name="one layout's products run untuned", kind="slow", stage="graph", when=when, log=(line,), time=factor
    )


def _narrow(rng: random.Random) -> Fault:
    line = "RuntimeError: Unsupported kernel config for moe heuristic dispatch"
    when = When(flags=_on(tp_size=Check(at_most=rng.choice((1, 2)))))
    return Fault(name="the narrowest layout has no kernel", kind="crash", stage="warmup", when=when, log=(line,))


FAULTS: tuple[Draw, ...] = (_deadlock, _deep_drafts, _wrong_cache, _wide_chunks, _slow_start, _fallback, _narrow)


def sample(seed: int) -> World:
    """The world of that number: equal numbers, equal worlds. At least four candidates of its space serve."""
    for attempt in range(TRIES):
        rng = random.Random(f"world {seed} {attempt}")
        drawn = _draw(rng, seed)
        if serving(drawn) >= FEWEST:
            return drawn
    return drawn.model_copy(update={"faults": ()})


def _draw(rng: random.Random, seed: int) -> World:
    base = world(rng.choice(BASES))
    count = rng.choices((0, 1, 2, 3), (1, 4, 4, 2))[0]
    noise = Noise(
        boot=round(rng.uniform(0.003, 0.015), 4),
        point=round(rng.uniform(0.002, 0.008), 4),
        burst=rng.choice((0.0, 0.0, 0.0, 0.05)),
    )
    return World(
        name=f"sample-{seed}",
        summary=f"drawn with seed {seed} after {base.name}",
        node=NodeSpec(),
        model=base.model,
        builds=base.builds,
        truth=_truth(rng, base.truth),
        tuned=base.tuned and Tuned(tune_s=base.tuned.tune_s),
        noise=noise,
        faults=tuple(make(rng) for make in rng.sample(FAULTS, count)),
        space=base.space,
    )


def _truth(rng: random.Random, base: Truth) -> Truth:
    """Efficiencies around the base's; one width of tensor parallelism suits the kernels, another does not."""
    told = base.model_dump()
    for name in SHARES:
        told[name] = round(min(0.9, max(0.02, told[name] * exp(rng.gauss(0.0, 0.25)))), 4)
    for name in TIMES:
        told[name] = round(told[name] * exp(rng.gauss(0.0, 0.2)), 2)
    good, bad = rng.sample((2, 4, 8), 2)
    effects = (
        Effect(name="kernels suit this width", when=_width(good), time={"experts": 0.85, "prompt": 0.9}),
        Effect(name="kernels do not suit this width", when=_width(bad), time={"experts": 1.2, "prompt": 1.15}),
        Effect(
            name="the fused all-reduce",
            when=When(flags=_on(enable_aiter_allreduce_fusion=Check(equals=True))),
            time={"reduce": round(rng.uniform(0.8, 1.05), 3)},
        ),
    )
    chance = round(rng.uniform(0.6, 0.92), 3) if base.speculation.chance else 0.0
    told |= {"effects": effects, "speculation": Speculation(chance=chance, fade=round(rng.uniform(0.85, 1.0), 3))}
    return Truth(**told)


def _width(ranks: int) -> When:
    return When(flags=_on(tp_size=Check(equals=ranks)))


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
