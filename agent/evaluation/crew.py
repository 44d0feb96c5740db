"""Plays many jobs: in worker processes, results as they come, those of earlier times from their files."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import TypeVar

from day0.agent.evaluation.keeping import keep, kept
from day0.agent.evaluation.playing import Job, play, request_of, world_of
from day0.agent.evaluation.scoring import Judge, Score
from day0.agent.settings import load
from day0.runs.errors import Day0Error, Infrastructure

T = TypeVar("T")
S = TypeVar("S")


def rated(worlds: Sequence[str], home: Path, workers: int) -> Iterator[tuple[str, bool]]:
    """Rates every world's space where it was not rated before; (world, whether flags alone solve it)."""
    yield from _spread(partial(_rate, home=home), worlds, workers)


def played(jobs: Sequence[Job], home: Path, workers: int, *, again: bool = False) -> Iterator[tuple[Job, Score]]:
    """(job, score) of each job as it ends; with `again` also those are played that were before.

    Raises `Infrastructure` naming the world when a job breaks; what ended before is kept.
    """
    left: list[Job] = []
    for job in jobs:
        found = None if again else kept(job, home)
        if found is None:
            left.append(job)
        else:
            yield job, found
    for job, text in _spread(partial(_play, home=home), left, workers):
        score = Score.model_validate_json(text)
        keep(job, score, home)
        yield job, score


def _play(job: Job, home: Path) -> str:
    return play(job, load(home=home)).canonical()  # frozen maps do not travel between processes, their text does


def _rate(name: str, home: Path) -> bool:
    job = Job(world=name, policy="default")
    found = world_of(job, home)
    return Judge(found, request_of(job, found).workloads[0], home / "oracles").flags_solve()


def _spread(work: Callable[[T], S], items: Sequence[T], workers: int) -> Iterator[tuple[T, S]]:
    if workers <= 1 or len(items) <= 1:
        for item in items:
            yield item, _named(item, partial(work, item))
        return
    context = multiprocessing.get_context("spawn")
    before = set(multiprocessing.active_children())
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_deaf) as pool:
        futures = {pool.submit(work, item): item for item in items}
        try:
            for future in as_completed(futures):
                yield futures[future], _named(futures[future], future.result)
        except BaseException:  # also Ctrl-C, and a caller that wants no more
            _stop(pool, futures, set(multiprocessing.active_children()) - before)
            raise


def _named(item: object, result: Callable[[], S]) -> S:
    """The result; whatever breaks it names what was played."""
    what = f"{item.world} with {item.policy}" if isinstance(item, Job) else str(item)
    try:
        return result()
    except Day0Error:
        raise
    except BrokenProcessPool:
        raise Infrastructure(f"a worker process died while {what} was played: is there enough memory?") from None
    except Exception as error:
        raise Infrastructure(f"{what} broke: {type(error).__name__}: {error}") from error


def _stop(
    pool: ProcessPoolExecutor, futures: Iterable[Future[S]], own: set[multiprocessing.process.BaseProcess]
) -> None:
    """Ends the workers at once; they hold nothing but temporary folders."""
    for future in futures:
        future.cancel()
    for child in own:
        child.terminate()
    pool.shutdown(wait=False, cancel_futures=True)


def _deaf() -> None:
    """Ctrl-C is the parent's to handle; SIGTERM leaves through the blocks that remove temporary folders."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)


def _leave(*_: object) -> None:
    raise SystemExit(1)
