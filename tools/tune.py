"""Tuning the fused expert kernels that a layout runs untuned: aiter's own tuner, in a job sandbox of the image.

The tuner writes rows as it finds them. What it has written counts even when it dies or its time is over: it is started
again for what is missing, and only rows that pass validation reach the table.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from day0.runs.errors import CandidateFailed, Refused
from day0.runs.facts import ArtifactKept, Fact, FailureClass, Progress
from day0.runs.patches import Table
from day0.sandboxes.base import Clock, Process, Sandbox
from day0.tools.aiter_shapes import UNTUNED_HEADER, Shape, Untuned, untuned, untuned_of
from day0.tools.aiter_tables import Validated, coverage, merged, validated, written
from day0.tools.codemods.base import Source
from day0.tools.programs import source as program
from day0.tools.workspace import WORKSPACE, SandboxSource

TUNER = f"{WORKSPACE}/aiter/csrc/ck_gemm_moe_2stages_codegen/gemm_moe_tune.py"
VARIABLE = "AITER_CONFIG_FMOE"
IN, OUT, LOG = "day0-untuned-{n}.csv", "day0-tuned-{n}.csv", "tuner.log"
LOCKS = "clear_locks"
DEFAULT_ARCH = "gfx950"
STEP_S, GRACE_S, CLEAR_S = 20.0, 20.0, 60.0
STARTS = 3
"""How often the tuner is started; a shape that it dies of twice is left out"""
MAX_BYTES = 32 << 20

__all__ = ["Shape", "Untuned", "merged", "shipped", "tune", "untuned", "untuned_of", "validated"]


@dataclass
class _Job:
    """What one call of the tuner works with."""

    sandbox: Sandbox
    clock: Clock
    ends: float
    arch: str
    texts: list[str]
    log: bytes = b""


def shipped(source: Source) -> dict[str, str]:
    """The tables that an image merges by itself while the variable is not set: the default, and those of models."""
    found = []
    if isinstance(source, SandboxSource):
        every = source.holding("token", "*tuned_fmoe*.csv")
        found = [path for path in every if "untuned" not in path and "/configs/" in f"/{path}"]
    standard = ("aiter/aiter/configs/tuned_fmoe.csv", "aiter/configs/tuned_fmoe.csv")
    texts = {path: source(path) for path in sorted({*found, *standard})}
    return {path: text for path, text in texts.items() if text is not None}


def tune(
    sandbox: Sandbox,
    told: Untuned,
    *,
    build: str,
    clock: Clock,
    timeout_s: float,
    arch: str = "",
    earlier: str = "",
) -> Generator[Fact, None, Table]:
    """Tunes every padded batch of the shapes and gives the table that a server takes, the image's own rows included.

    `earlier` is the kept output of an interrupted call: its rows are not made again. Yields progress and the tuner's
    log and rows as artifacts. Raises `Refused`: nothing to tune, or every shape has a row; `CandidateFailed`
    (bad_patch): the tuner gave no row that holds; `Cancelled`, `NodeLost`, `Infrastructure` of the sandbox.
    """
    arch = arch or told.arch or DEFAULT_ARCH
    wanted = told.wanted()
    if not wanted:
        raise Refused("the log names no expert kernel without tuned rows: there is nothing to tune")
    image = [text for text in shipped(SandboxSource(sandbox)).values() if _readable(text)]
    before = coverage(wanted, image, arch=arch)
    open_ = _open(wanted, image, arch)
    if not open_:
        raise Refused("every shape that is asked for has a tuned row in the image already")
    job = _Job(sandbox, clock, clock.now() + timeout_s, arch, [earlier] if _readable(earlier) else [])
    yield from _clear(job)
    for number in range(STARTS):
        left = _left(open_, job)
        if not left or clock.now() >= job.ends:
            break
        yield from _start(job, left, number)
    found = _found(open_, job)
    yield ArtifactKept(name=LOG, data=job.log[-MAX_BYTES:])
    yield ArtifactKept(name="tuned.csv", data=written(found.rows).encode())
    if not found.rows:
        last = job.log.decode(errors="replace").strip().splitlines()[-1:] or ["it printed nothing"]
        raise CandidateFailed(FailureClass.BAD_PATCH, f"the tuner gave no row that holds: {last[0][:300]}")
    text = merged((*image, written(found.rows)))
    after = coverage(wanted, [text], arch=arch)
    dropped = "".join(f"; {count} rows left out: {why}" for why, count in sorted(found.dropped.items()))
    yield Progress(text=f"tuned rows for {before:.0%} of {len(wanted)} shapes before, for {after:.0%} now{dropped}")
    return Table(
        build=build,
        arch=arch,
        variable=VARIABLE,
        text=text,
        rows=text.count("\n") - 1,
        shapes=tuple(shape.said() for shape in open_),
        why=f"coverage {before:.0%} -> {after:.0%} of {len(wanted)} shapes, known from the {told.source}{dropped}",
    )


def _readable(text: str) -> bool:
    """Whether a text is a table of tuned rows."""
    try:
        merged((text,))
    except ValueError:
        return False
    return True


def _open(wanted: Sequence[Shape], texts: Sequence[str], arch: str) -> tuple[Shape, ...]:
    return tuple(shape for shape in wanted if coverage((shape,), texts, arch=arch) < 1)


def _found(shapes: Sequence[Shape], job: _Job) -> Validated:
    """What holds of all output so far."""
    readable = [text for text in job.texts if _readable(text)]
    kept = [validated(text, shapes, arch=job.arch) for text in readable]
    dropped: dict[str, int] = {}
    for part in kept:
        for why, count in part.dropped.items():
            dropped[why] = dropped.get(why, 0) + count
    one = merged(written(part.rows) for part in kept)
    return Validated(validated(one, shapes, arch=job.arch).rows, dropped)


def _left(shapes: Sequence[Shape], job: _Job) -> tuple[Shape, ...]:
    return _open(shapes, [written(_found(shapes, job).rows)], job.arch)


def _clear(job: _Job) -> Generator[Fact, None, None]:
    """Removes what a killed tuner left: the next one would wait for it for ever."""
    job.sandbox.write(f"{LOCKS}.py", program(LOCKS))
    process = job.sandbox.spawn(["python", f"{LOCKS}.py", f"{WORKSPACE}/aiter/aiter/jit"])
    try:
        code = process.wait(CLEAR_S).code
    finally:
        process.stop(1.0)
    removed = process.output(0, 1 << 16).decode(errors="replace").splitlines()
    if removed and code == 0:
        yield Progress(text=f"removed {len(removed)} locks that a killed compiler left: {removed[0][:200]}")


def _start(job: _Job, shapes: Sequence[Shape], number: int) -> Generator[Fact, None, None]:
    """One start of the tuner, until it ends or the time is over; its rows and output are kept either way."""
    source, target = IN.format(n=number), OUT.format(n=number)
    job.sandbox.write(source, ("\n".join([UNTUNED_HEADER, *(shape.row() for shape in shapes)]) + "\n").encode())
    process = job.sandbox.spawn(["python3", TUNER, "-i", source, "-o", target])
    said = 0
    try:
        while process.poll() is None and job.clock.now() < job.ends:
            job.clock.sleep(min(STEP_S, max(0.1, job.ends - job.clock.now())))
            done = _rows(job.sandbox, target)
            if done > said:
                said = done
                yield Progress(text=f"tuned {done} of {len(shapes)} shapes")
    finally:
        process.stop(GRACE_S)
        job.log += _output(process)
    try:
        job.texts.append(job.sandbox.read(target, MAX_BYTES).decode(errors="replace"))
    except FileNotFoundError:
        return


def _rows(sandbox: Sandbox, target: str) -> int:
    try:
        return max(0, sandbox.read(target, MAX_BYTES).count(b"\n") - 1)
    except FileNotFoundError:
        return 0


def _output(process: Process) -> bytes:
    out, offset = b"", 0
    while (piece := process.output(offset, 1 << 20)) and len(out) < MAX_BYTES:
        out, offset = out + piece, offset + len(piece)
    return out
