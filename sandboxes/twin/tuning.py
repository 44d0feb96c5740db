"""Rows of tuned expert kernels: which ones a server asks for, and whether its tables hold them.

aiter looks rows up by accelerator, padded tokens, model and inner width, experts and experts per token; fusing the
shared expert makes that (E + 1, k + 1), tensor and expert parallelism divide the inner width and the experts.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from day0.sandboxes.twin.programs import bootlog
from day0.sandboxes.twin.world import Build, World

TABLE = re.compile(r"(?:.*/)?configs/(?:tuned_fmoe|model_configs/(?!.*untuned)[^/]*tuned_fmoe[^/]*)\.csv\Z")
"""Files that aiter merges while the variable is not set: the default, and those of single models."""
VARIABLE = "AITER_CONFIG_FMOE"
TOKENS = tuple(2**n for n in range(15))
ENOUGH = 0.9
FIELDS = ("token", "model_dim", "inter_dim", "expert", "topk")
UNTUNED_HEADER = (
    "token,model_dim,inter_dim,expert,topk,act_type,dtype,q_dtype_a,q_dtype_w,q_type,use_g1u1,doweight_stage1"
)
COMPUTE_UNITS = 256

Key = tuple[int, int, int, int, int]


def shapes(world: World, args: Mapping[str, Any]) -> tuple[Key, ...]:
    """(token, model_dim, inter_dim, expert, topk) of every padded batch; empty for a dense model."""
    g = world.model.geometry
    if not g.experts:
        return ()
    tp, ep = int(args["tp_size"]), int(args.get("ep_size") or 1)
    fused = 0 if args.get("disable_shared_experts_fusion") or not world.model.config.get("n_shared_experts") else 1
    inner = g.moe_width // max(1, tp // ep)
    return tuple((t, g.hidden, inner, g.experts // ep + fused, g.experts_per_token + fused) for t in TOKENS)


def tuned(
    world: World, build: Build, args: Mapping[str, Any], env: Mapping[str, str], read: Callable[[str], str]
) -> bool:
    """Whether the tables in force serve nine of ten shapes. With the variable set, only its files count.

    `read` takes paths as processes of the server mean them.
    """
    named = env.get(VARIABLE, "")
    if world.tuned is None or (world.tuned.shipped and not named):
        return True
    if named:
        texts = [read(path) for path in named.split(":")]
    else:
        texts = [read(f"/sgl-workspace/{path}") or text for path, text in build.tree.items() if TABLE.match(path)]
    have = {key for text in texts for key in rows(text, world.node.arch)}
    wanted = shapes(world, args)
    return sum(key in have for key in wanted) >= ENOUGH * len(wanted)


def rows(text: str, arch: str) -> Iterator[Key]:
    """The keys of a tuned table; rows of other accelerators and damaged ones are left out."""
    for row in csv.DictReader(io.StringIO(text)):
        units = row.get("cu_num") or ""
        if (row.get("gfx") or arch) == arch and (not units.isdigit() or int(units) == COMPUTE_UNITS):
            try:
                token, model, inner, expert, topk = (int(row[f] or "") for f in FIELDS)
            except (KeyError, ValueError):
                continue
            yield token, model, inner, expert, topk


def described(world: World, key: Key) -> str:
    """A shape as aiter prints it."""
    token, model, inner, expert, topk = key
    fp4 = "'torch.float4_e2m1fn_x2'"
    kinds = f"'ActivationType.Silu', 'torch.bfloat16', {fp4}, {fp4}, 'QuantType.per_1x32'"
    return f"'{world.node.arch}', {COMPUTE_UNITS}, {token}, {model}, {inner}, {expert}, {topk}, {kinds}, True, False"


def lines(world: World, args: Mapping[str, Any], *, tuned: bool) -> Iterator[str]:
    """What the log says of each shape, once a shape."""
    if world.tuned is not None:
        for key in shapes(world, args)[:10]:
            yield (bootlog.TUNED if tuned else bootlog.UNTUNED).format(key=described(world, key))
