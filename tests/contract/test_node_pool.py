"""The NodePool port: one body over every implementation."""

import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path

import pytest
from day0.agent.nodes import Ended, LocalPool, NodePool, Told, Work, hold
from day0.agent.stepped import SteppedPool
from day0.runs.errors import Cancelled, CandidateFailed, Infrastructure
from day0.runs.facts import Fact, Progress
from day0.sandboxes.base import Node
from day0.sandboxes.local import LocalNode
from day0.sandboxes.scripted import ScriptedNode
from day0.sandboxes.spec import CancelToken


def scripted(root: Path, name: str, cancel: CancelToken) -> Node:
    return ScriptedNode(name, root, {}, cancel=cancel)


def local(root: Path, name: str, cancel: CancelToken) -> Node:
    return LocalNode(name, root, cancel=cancel)


@pytest.fixture(
    params=[(scripted, "threads"), (local, "threads"), (scripted, "stepped")],
    ids=["scripted-threads", "local-threads", "scripted-stepped"],
)
def pool(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NodePool]:
    node, kind = request.param
    make = {n: partial(node, tmp_path, n) for n in ("one", "two")}
    made: NodePool = SteppedPool(make) if kind == "stepped" else LocalPool(make, shared=False)
    yield made
    made.close()


def tell(node: Node, words: tuple[str, ...], error: Exception | None = None) -> Generator[Fact, None, None]:
    for word in words:
        yield Progress(text=word)
    if error is not None:
        raise error


def busy(node: Node) -> Generator[Fact, None, None]:
    while True:
        node.clock.sleep(0.01)
        yield Progress(text="busy")


def until_ended(pool: NodePool) -> tuple[list[Told], Ended]:
    told: list[Told] = []
    while True:
        got = pool.next(5.0)
        assert got is not None, "nothing came"
        if isinstance(got, Ended):
            return told, got
        told.append(got)


def test_facts_come_in_order_and_then_the_end(pool: NodePool) -> None:
    assert pool.start(Work("a", 3, partial(tell, words=("x", "y")))) == "one"
    told, ended = until_ended(pool)
    assert [t.fact.text for t in told if isinstance(t.fact, Progress)] == ["x", "y"]
    assert {(t.key, t.epoch, t.node) for t in told} == {("a", 3, "one")}
    assert ended.error is None
    assert pool.free() == ("one", "two")
    assert not pool.busy()


@pytest.mark.parametrize(
    "error", [CandidateFailed("crashed", "line"), Infrastructure("disk"), ValueError("unforeseen")]
)
def test_whatever_ends_a_work_is_handed_over(pool: NodePool, error: Exception) -> None:
    pool.start(Work("a", 0, partial(tell, words=("x",), error=error)))
    told, ended = until_ended(pool)
    assert len(told) == 1
    assert ended.error is error


def test_the_first_finished_is_told_first_while_the_other_goes_on(pool: NodePool) -> None:
    pool.start(Work("long", 0, busy))
    pool.start(Work("short", 0, partial(tell, words=())))
    assert pool.free() == ()
    _, ended = until_ended(pool)
    assert ended.key == "short"
    assert pool.free() == ("two",)
    assert pool.busy()


def test_a_third_work_has_no_node(pool: NodePool) -> None:
    pool.start(Work("a", 0, busy))
    pool.start(Work("b", 0, busy))
    with pytest.raises(Infrastructure, match="no node"):
        pool.start(Work("c", 0, busy))


def test_s06_cancel_ends_a_work_within_seconds_and_leaves_the_others(pool: NodePool) -> None:
    pool.start(Work("a", 0, busy))
    pool.start(Work("b", 0, busy))
    start = time.monotonic()
    pool.cancel("a")
    pool.cancel("a")
    _, ended = until_ended(pool)
    assert ended.key == "a"
    assert isinstance(ended.error, Cancelled)
    assert time.monotonic() - start < 5.0
    assert pool.free() == ("one",)


def test_a_node_is_usable_after_a_cancelled_work(pool: NodePool) -> None:
    pool.start(Work("a", 0, busy))
    pool.cancel("a")
    until_ended(pool)
    pool.start(Work("b", 0, partial(tell, words=("x",))))
    told, ended = until_ended(pool)
    assert (len(told), ended.error) == (1, None)


def test_closing_ends_everything(pool: NodePool) -> None:
    pool.start(Work("a", 0, busy))
    pool.close()
    pool.close()
    assert not pool.busy()


def wait(node: Node, seconds: float) -> Generator[Fact, None, None]:
    for _ in range(3):
        node.clock.sleep(seconds)
        yield Progress(text=f"{node.clock.now():g}")


def test_simulated_nodes_tell_in_the_order_of_node_time(tmp_path: Path) -> None:
    pool = SteppedPool({n: partial(scripted, tmp_path, n) for n in ("one", "two", "three")})
    for key, seconds in (("slow", 50.0), ("quick", 10.0), ("also quick", 10.0)):
        pool.start(Work(key, 0, partial(wait, seconds=seconds)))
    told, pool_time = [], 0.0
    while pool.busy():
        got = pool.next(1.0)
        assert got is not None
        told.append((got.node_s if isinstance(got, Told) else pool_time, got.node))
        pool_time = told[-1][0]
    pool.close()
    assert [at for at, _ in told] == sorted(at for at, _ in told)
    assert [node for _, node in told[:4]] == ["three", "two"] * 2  # equally late: by name
    assert [node for _, node in told[-4:]] == ["one"] * 4


def test_two_processes_never_share_a_node(tmp_path: Path) -> None:
    held = hold("here", tmp_path)
    try:
        code = (
            "from pathlib import Path; from day0.agent.nodes import hold; from day0.runs.errors import Infrastructure\n"
            f"try:\n hold('here', Path({str(tmp_path)!r}))\nexcept Infrastructure as error:\n print(error)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    finally:
        held.close()
    assert "in use by process" in done.stdout, done.stderr
    hold("here", tmp_path).close()
