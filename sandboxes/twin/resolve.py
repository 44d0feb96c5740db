"""From a command line to what a simulated SGLang runs with: its own parser, and what it resolves by itself."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NoReturn

from day0.runs.errors import UserError
from day0.sandboxes.twin import layout
from day0.sandboxes.twin.world import World

PROG = "launch_server.py"
NOT_A_FLAG = ("#", "\n")
UNITS = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


class Usage(Exception):
    """A command line that argparse refuses: `message` as argparse words it."""


class Fatal(Exception):
    """The engine refuses its own arguments after parsing: the last line of the traceback."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Usage(message)


def human_readable_int(text: str) -> int:
    """16k, 1Ki, 16384. Raises `ValueError`."""
    unit = next((u for u in sorted(UNITS, key=len, reverse=True) if text.endswith(u)), "")
    return int(float(text.removesuffix(unit)) * UNITS.get(unit, 1))


KINDS: dict[str, Any] = {"int": int, "float": float, "str": str, "json": json.loads, "size": human_readable_int}


def rows(catalogue: str) -> list[list[str]]:
    """The flags of a shipped catalogue: name, kind, choices, default, aliases. Raises `UserError`."""
    file = resources.files("day0.sandboxes.twin.builds").joinpath(f"{catalogue}.txt")
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:
        raise UserError(f"no flag catalogue {catalogue!r} ships with day0") from None
    return [line.split("\t") for line in text.splitlines() if not line.startswith(NOT_A_FLAG)]


ROUTER = ("random", "round_robin", "cache_aware", "power_of_two", "manual")
ROUTED = "sglang_router.launch_server"


@cache
def parser(catalogue: str, *, routed: bool = False) -> argparse.ArgumentParser:
    """SGLang's parser by its shipped catalogue; `--help` and messages are argparse's own. `routed`: the router's."""
    made = _Parser(
        prog=PROG, formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=40, width=200)
    )
    for name, kind, choices, default, aliases in rows(catalogue):
        names = [f"--{n}" for n in (name, *filter(None, aliases.split(",")))]
        dest, plain = name.replace("-", "_"), kind.rstrip("*?")
        text = f"{name.replace('-', ' ')} (of the simulated build)"
        if plain == "switch":
            made.add_argument(*names, dest=dest, action="store_true", help=text)
        elif plain == "toggle":
            made.add_argument(*names, dest=dest, action=argparse.BooleanOptionalAction, help=text)
        else:
            made.add_argument(
                *names,
                dest=dest,
                type=KINDS[plain],
                nargs={"*": "+", "?": "?"}.get(kind[len(plain) :]),
                choices=choices.split(",") if choices else None,
                default=KINDS[plain](default) if default and not kind.endswith("*") else None,
                required=name == "model-path",
                help=text,
            )
    if routed:
        made.add_argument("--router-policy", choices=ROUTER, default="cache_aware", help="of the simulated router")
        made.add_argument("--router-dp-worker-base-port", type=int, default=31000, help="of its servers")
    return made


def types(catalogue: str) -> dict[str, dict[str, str | None]]:
    """Flag -> kind and default, as `sglang_facts.py` reads them from the real parser."""
    return {
        flag: {"kind": "switch" if kind in ("switch", "toggle") else kind.rstrip("*?"), "default": default or None}
        for name, kind, _, default, aliases in rows(catalogue)
        for flag in (name, *filter(None, aliases.split(",")))
    }


def parse(catalogue: str, words: Sequence[str], *, routed: bool = False) -> dict[str, Any]:
    """The arguments by dest. Raises `Usage`."""
    return vars(parser(catalogue, routed=routed).parse_args(list(words)))


def resolve(world: World, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What the engine makes of parsed arguments on this node: `/server_info`'s fields.

    Raises `Fatal` where it refuses them. `max_total_num_tokens` may be zero or less: then the model does not fit.
    """
    args = dict(asked)
    tp, dp = args["tp_size"], args["dp_size"]
    groups = args.get("attn_dp_size") or 1
    if args.get("enable_dp_attention") and groups == 1:
        groups, dp = dp, 1
        args["attn_dp_size"] = groups
    gpus, have = tp * dp * (args.get("pp_size") or 1), world.node.gpus
    if gpus > have:
        raise Fatal(f"RuntimeError: HIP error: invalid device ordinal (asked for {gpus} devices, {have} are visible)")
    if tp % groups:
        raise Fatal(f"AssertionError: tp_size ({tp}) must be divisible by dp_size ({groups}) with DP attention")
    heads = world.model.geometry.heads
    if heads % (tp // groups):
        raise Fatal(f"AssertionError: number of heads ({heads}) must be divisible by tp ({tp // groups})")
    _speculation(args)
    cut = world.defaults
    args["mem_fraction_static"] = args["mem_fraction_static"] or cut.memory_share
    args["attention_backend"] = args["attention_backend"] or cut.attention_backend
    args["chunked_prefill_size"] = _chunk(args["chunked_prefill_size"] or cut.chunk)
    physics = world.physics()
    args["max_total_num_tokens"] = _tokens(physics, args)
    silent = cut.running_speculative // groups * groups if args.get("speculative_algorithm") else cut.running
    args["max_running_requests"] = args["max_running_requests"] or silent
    return args


def _chunk(value: int) -> int:
    return value if value > 0 else 1 << 20


def _speculation(args: dict[str, Any]) -> None:
    algorithm = args.get("speculative_algorithm")
    if not algorithm:
        return
    keys = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")
    given = [args.get(k) for k in keys]
    if all(v is None for v in given):
        args.update(zip(keys, (3, 1, 4), strict=True))
    elif any(v is None for v in given):
        raise Fatal(f"AssertionError: {', '.join('--' + k.replace('_', '-') for k in keys)} must be set together")
    steps, topk, tokens = (int(args[k]) for k in keys)
    if topk == 1 and tokens != steps + 1:
        args["speculative_num_draft_tokens"] = steps + 1


def _tokens(physics: layout.Physics, args: Mapping[str, Any]) -> int:
    room = layout.kv_tokens(physics, layout.layout(args), args["mem_fraction_static"])
    asked = args.get("max_total_tokens")
    return min(room, int(asked)) if asked else room
