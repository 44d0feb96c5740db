"""What an attempt's facts add up to: verdicts, points, knees, boots and node time. Pure; one rule for every reader."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from day0.runs.facts import BootEnded, BootStarted, Fact, Knee, KneeFound, LoadPoint, PointMeasured, Rung, Verdict
from day0.runs.findings import Explained


@dataclass
class Climbed:
    """Grows with each fact, in their order; facts of other kinds change nothing."""

    verdicts: list[Verdict] = field(default_factory=list)
    points: list[tuple[int, Rung, LoadPoint]] = field(default_factory=list)
    knees: list[tuple[int, Rung, Knee]] = field(default_factory=list)
    explained: list[Explained] = field(default_factory=list)
    boots: int = 0
    node_s: float = 0.0
    beside_s: float = 0.0
    _beside: set[int] = field(default_factory=set)

    def add(self, fact: Fact) -> None:
        """One fact more."""
        match fact:
            case Verdict():
                self.verdicts.append(fact)
            case PointMeasured():
                self.points.append((fact.boot, fact.rung, fact.point))
                if fact.rung == Rung.REPEAT:
                    self._beside.add(fact.boot)
            case KneeFound():
                self.knees.append((fact.boot, fact.rung, fact.knee))
            case Explained():
                self.explained.append(fact)
            case BootStarted():
                self.boots = max(self.boots, fact.boot)
            case BootEnded():
                self.node_s += fact.node_s
                self.beside_s += fact.node_s if fact.boot in self._beside else 0.0
            case _:
                pass

    def fields(self) -> dict[str, Any]:
        """The fields of `day0.runs.schema.Attempt` that come from facts."""
        return {
            "verdicts": tuple(self.verdicts),
            "points": tuple(self.points),
            "knees": tuple(self.knees),
            "explained": tuple(self.explained),
            "boots": self.boots,
            "node_s": self.node_s,
            "beside_s": self.beside_s,
        }
