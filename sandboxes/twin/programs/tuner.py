"""aiter's tuner of fused expert kernels: untuned rows in, tuned rows out, in node time."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Generator, Iterator
from math import inf
from pathlib import Path
from typing import NoReturn

from day0.sandboxes.simulated.machine import Context
from day0.sandboxes.simulated.steps import Exit, Out, Step, Wait
from day0.sandboxes.twin.answers import dice
from day0.sandboxes.twin.site import Site
from day0.sandboxes.twin.tuning import COMPUTE_UNITS, TOKENS, UNTUNED_HEADER
from day0.sandboxes.twin.workspace import placed

SCRIPT = "csrc/ck_gemm_moe_2stages_codegen/gemm_moe_tune.py"
TUNED_HEADER = (
    "gfx,cu_num,token,model_dim,inter_dim,expert,topk,act_type,dtype,q_dtype_a,q_dtype_w,q_type,use_g1u1,"
    "doweight_stage1,block_m,ksplit,us1,kernelName1,err1,us2,kernelName2,err2,us,run_1stage,xbf16,flat,tflops,bw,_tag"
)
Steps = Generator[Step, object, None]


class _Usage(Exception):
    """A command line that argparse refuses."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Usage(message)


def _parser() -> _Parser:
    parser = _Parser(prog="gemm_moe_tune.py", exit_on_error=False)
    for names, kind in (
        (("-i", "--untune_file"), str), (("-o", "--tune_file"), str), (("-o2", "--profile_file"), str),
        (("--mp",), int), (("--batch",), int), (("--errRatio",), float), (("--warmup",), int), (("--iters",), int),
        (("--timeout",), float), (("--min_improvement_pct",), float),
    ):  # fmt: skip
        parser.add_argument(*names, type=kind)
    for name in ("--last", "--all", "--sort", "--compare", "--update_improved", "--run_config", "--mxfp4-flydsl", "-v"):
        parser.add_argument(name, action="store_true")
    return parser


def tune(site: Site, ctx: Context) -> Steps:
    """`python .../gemm_moe_tune.py -i untuned.csv -o tuned.csv`; each row takes its share of the world's time."""
    script = next(n for n, word in enumerate(ctx.argv) if word.endswith(".py"))
    try:
        asked = _parser().parse_args(list(ctx.argv[script + 1 :]))
    except _Usage as error:
        yield Out(f"usage: gemm_moe_tune.py [-h] -i FILE -o FILE\ngemm_moe_tune.py: error: {error}\n".encode())
        yield Exit(2)
        return
    source, target = (
        Path(ctx.folder, placed(ctx.folder, name)) for name in (asked.untune_file or "", asked.tune_file or "tuned.csv")
    )
    rows = list(csv.DictReader(io.StringIO(site.file(str(source)))))
    if not rows or set(UNTUNED_HEADER.split(",")) - set(rows[0]):
        yield Out(f"no rows to tune in {source.name}: its header must be {UNTUNED_HEADER}\n".encode())
        yield Exit(1)
        return
    whole = site.world.tuned.tune_s if site.world.tuned else 60.0
    yield Wait(10.0, cpu=1.0)
    if lock := next(locks(ctx), None):
        yield Out(f"[aiter] waiting for baton release at {lock}\n".encode())
        yield Wait(inf)
    lines = [TUNED_HEADER]
    for number, row in enumerate(rows, 1):
        yield Wait(whole / len(TOKENS), cpu=1.0)
        yield Out(f"[aiter] tuned {number}/{len(rows)}: token={row['token']} inter_dim={row['inter_dim']}\n".encode())
        lines.append(_tuned(site, row))
        target.write_text("\n".join(lines) + "\n", encoding="utf-8")


def locks(ctx: Context) -> Iterator[Path]:
    """Locks of compilers in the caches that a process sees."""
    for name, value in sorted(ctx.env.items()):
        if name.startswith("DAY0_CACHE_"):
            yield from sorted(Path(value).rglob("lock_module_*"))


def clear_locks(site: Site, ctx: Context) -> Steps:
    """`python clear_locks.py`: removes them and says which."""
    del site
    yield Wait(0.1, cpu=1.0)
    for lock in locks(ctx):
        lock.unlink(missing_ok=True)
        yield Out(f"{lock}\n".encode())


def _tuned(site: Site, row: dict[str, str]) -> str:
    given = [row[name] for name in UNTUNED_HEADER.split(",")]
    time = 20.0 + 80.0 * dice("us", *given)
    kernels = (
        f"32,0,{time * 0.6:.2f},flydsl_moe1_tuned,0.0,{time * 0.4:.2f},flydsl_moe2_tuned,0.0,{time:.2f},0,0,0,0,0,"
    )
    return ",".join([site.world.node.arch, str(COMPUTE_UNITS), *given, kernels])
