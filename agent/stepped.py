"""A pool of simulated nodes: one thread, always the node whose next word comes first in node time.

Simulated nodes have clocks of their own, so threads would only mix their facts at random. Here what they tell is handed
over in the order of node time, ties by name: the same run tells the same story every time.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field

from day0.agent.nodes import Ended, MakeNode, Told, Work
from day0.runs.errors import Cancelled, Infrastructure
from day0.runs.facts import Fact
from day0.sandboxes.base import Node


@dataclass
class _Slot:
    node: Node
    stopping: list[bool]
    work: Work | None = None
    facts: Generator[Fact, None, None] | None = None
    begun_s: float = 0.0
    told: Told | Ended | None = None
    """its next word, already known"""
    until_s: float = 0.0


@dataclass
class SteppedPool:
    """The port of `day0.agent.nodes.NodePool`; nothing runs but inside `next`."""

    make: Mapping[str, MakeNode]
    _slots: dict[str, _Slot] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for name, make in sorted(self.make.items()):
            stopping: list[bool] = []
            self._slots[name] = _Slot(make(lambda stop=stopping: bool(stop)), stopping)  # type: ignore[misc]

    def free(self) -> tuple[str, ...]:
        return tuple(name for name, slot in self._slots.items() if slot.work is None)

    def count(self) -> int:
        return len(self._slots)

    def busy(self) -> bool:
        return any(slot.work is not None for slot in self._slots.values())

    def start(self, work: Work) -> str:
        free = self.free()
        if not free:
            raise Infrastructure("no node is free")
        slot = self._slots[free[0]]
        slot.stopping.clear()
        slot.work, slot.begun_s = work, slot.node.clock.now()
        slot.facts = work.perform(slot.node)
        return free[0]

    def next(self, timeout_s: float) -> Told | Ended | None:
        busy = [(name, slot) for name, slot in self._slots.items() if slot.work is not None]
        for name, slot in busy:
            if slot.told is None:
                self._step(name, slot)
        if not busy:
            return None
        _, slot = min(busy, key=lambda item: (item[1].until_s, item[0]))
        told, slot.told = slot.told, None
        if isinstance(told, Ended):
            slot.work = slot.facts = None
        return told

    def cancel(self, key: str) -> None:
        for slot in self._slots.values():
            if slot.work is not None and slot.work.key == key:
                slot.stopping.append(True)

    def close(self) -> None:
        for slot in self._slots.values():
            slot.stopping.append(True)
            if slot.facts is not None:
                slot.facts.close()
            slot.work = slot.facts = slot.told = None

    def _step(self, name: str, slot: _Slot) -> None:
        """Runs a node to its next fact, or to the end of its work, whatever ended it."""
        work, facts = slot.work, slot.facts
        assert work is not None and facts is not None
        error: BaseException | None = None
        try:
            if slot.stopping:
                raise Cancelled("stopped between two facts")
            fact = next(facts)
            slot.until_s = slot.node.clock.now()
            slot.told = Told(work.key, work.epoch, name, slot.until_s, fact)
            return
        except StopIteration:
            pass
        except KeyboardInterrupt:
            raise
        except BaseException as caught:  # the controller decides what it means
            error = caught
        facts.close()
        slot.until_s = slot.node.clock.now()
        slot.told = Ended(work.key, work.epoch, name, slot.until_s - slot.begun_s, error)
