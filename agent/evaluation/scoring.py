"""What a played run is worth: the noise-free rating of what it found over the best of the world's declared space."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from day0.runs.candidate import Candidate
from day0.runs.patches import Patch, Table
from day0.runs.values import Frozen, Map
from day0.runs.workload import Workload
from day0.sandboxes.twin import oracle, rate, resolve, tuning
from day0.sandboxes.twin.oracle import Oracle, Pick, Rating
from day0.sandboxes.twin.replica import ServerSpec
from day0.sandboxes.twin.simulate import Noise
from day0.sandboxes.twin.world import World
from pydantic import Field

POINTS, ARRIVALS = 14, (1, 2, 3)
"""Points simulated at most, and sets of arrivals, for a candidate whose five points said little: its knee lies far from
where the search began, or the tail of waiting binds it, which one set of arrivals decides (the median counts then)."""
SOLVED = 0.95
"""of the oracle's best: a world is solved by a confirmed winner that serves rightly and is worth this share"""


class Score(Frozen):
    """One policy on one world with one seed. Shares are of the oracle's best; times are node hours."""

    world: str
    policy: str
    seed: int
    workload: str
    solved: bool
    share: float = Field(description="noise-free rating of the confirmed winner; 0 without one")
    broken: bool = Field(description="the confirmed winner does not serve, or not rightly")
    why_broken: str = ""
    winner: Map[Any] = Field(default_factory=dict, description="what the winner changes against the baseline")
    ended: str = Field(description="why the search ended, or what ended the run")
    confirmed: str = Field(default="", description="what the confirmation found")
    attempts: int = Field(description="candidates that climbed, the baseline not counted")
    refused: int = Field(description="proposals that the guard or their making refused")
    hours: float = Field(description="node hours of everything")
    search_hours: float
    budget_hours: float = Field(description="what a target that was never reached counts as")
    hours_to_95: float | None = Field(description="until the leader was first worth 95 %; None: never")
    tokens: int = Field(default=0, description="of the LLM, prompts and answers")
    usd: float = Field(default=0.0, description="what its calls cost, where prices are known")
    best: float = Field(description="the oracle's best, output tok/s per node")
    flags_solve: bool = Field(description="flags and variables alone reach 95 % of the oracle's best")
    trail: tuple[tuple[float, float, str], ...] = Field(
        default=(), description="each time the lead changed: node hours, share, what was changed"
    )

    @property
    def counted_hours(self) -> float:
        """Node hours to 95 %; the whole budget where it was never reached."""
        return max(self.search_hours, self.budget_hours) if self.hours_to_95 is None else self.hours_to_95


@dataclass
class Judge:
    """Rates candidates of one world under one workload, each once."""

    world: World
    workload: Workload
    memory: Path | None = None
    _known: dict[str, Rating] = field(default_factory=dict)
    _spaces: dict[tuple[ServerSpec, float], Rating] = field(default_factory=dict)
    _oracle: Oracle | None = None

    @property
    def oracle(self) -> Oracle:
        """All ratings of the declared space; kept in the folder `memory` by hash of world and simulator."""
        if self._oracle is None:
            self._oracle = oracle.oracle(self.world, self.workload, memory=self.memory)
        return self._oracle

    @property
    def best(self) -> float:
        """The best of the space, output tok/s per node."""
        return self.oracle.best.tok_s

    def flags_solve(self) -> bool:
        """Whether a candidate without tuning or repair, on the first build, is worth 95 % of the best."""
        shipped = self.world.tuned is None or self.world.tuned.shipped
        first = ("", self.world.builds[0].name)
        plain = [
            r.tok_s
            for r in self.oracle.ratings
            if not r.repaired and r.build in first and (shipped or not r.tuned)
        ]  # fmt: skip
        return max(plain, default=0.0) >= SOLVED * self.best > 0

    def rate(self, candidate: Candidate, patches: tuple[Patch, ...], tables: tuple[Table, ...]) -> Rating:
        """The noise-free rating of what really ran: its flags, variables, patched source, tuned rows."""
        key = candidate.digest()
        if key not in self._known:
            world, build = self._patched(candidate, patches)
            tuned = _tuned(world, build, candidate, tables)
            pick = Pick(dict(candidate.flags), dict(candidate.env), tuned, build=build)
            self._known[key] = self._rated(world, pick)
        return self._known[key]

    def _rated(self, world: World, pick: Pick) -> Rating:
        """As the oracle rates; where that found no rate that passes, or one set of arrivals decides, more closely."""
        served = oracle.server(world, self.workload, pick)
        if isinstance(served, str):
            return Rating(tok_s=0.0, why=served, **pick._asdict())
        if (same := self._servers().get(served)) is not None:
            return same.model_copy(update=pick._asdict())
        spec, speed = served
        first = oracle.rated(world, self.workload, pick)
        if first.tok_s > 0 and "TPOT" in first.why:
            return first
        again = [
            rate.knee(spec, self.workload, noise=Noise(speed), seed=seed, how=rate.Search(points=POINTS))
            for seed in ARRIVALS
        ]
        middle = sorted(again, key=lambda r: r.tok_s)[len(again) // 2]
        if middle.tok_s <= first.tok_s:
            return first
        return first.model_copy(
            update={"tok_s": middle.tok_s, "rate_rps": middle.rate_rps, "points": middle.points, "why": middle.bound_by}
        )

    def _servers(self) -> dict[tuple[ServerSpec, float], Rating]:
        """The ratings of the space by the server that each makes: what ends up as the same server is worth the same."""
        if not self._spaces:
            for rating in self.oracle.ratings:
                pick = Pick(rating.flags, rating.env, rating.tuned, rating.repaired, rating.build)
                served = oracle.server(self.world, self.workload, pick)
                if not isinstance(served, str):
                    self._spaces.setdefault(served, rating)
        return self._spaces

    def share(self, rating: Rating) -> float:
        """Of the oracle's best."""
        return rating.tok_s / self.best if self.best > 0 else 0.0

    def _patched(self, candidate: Candidate, patches: tuple[Patch, ...]) -> tuple[World, str]:
        """The world with the candidate's source in its build's place, and that build's name."""
        build = next(b for b in self.world.builds if b.digest() == candidate.build)
        if not patches:
            return self.world, build.name
        from day0.tools.patch import applied

        tree = {**build.tree, **applied(patches, build.tree.get)}
        changed = build.model_copy(update={"tree": tree})
        builds = tuple(changed if b.name == build.name else b for b in self.world.builds)
        return self.world.model_copy(update={"builds": builds}), build.name


def _tuned(world: World, build: str, candidate: Candidate, tables: tuple[Table, ...]) -> bool:
    """Whether the candidate's own tables, or the image's, serve its shapes."""
    try:
        args = oracle.arguments(world, candidate.flags, build)
    except (resolve.Usage, resolve.Fatal):
        return False
    texts = {f"table-{number}.csv": t.text for number, t in enumerate(tables)}  # names are joined by colons
    env = {**candidate.env, **({tuning.VARIABLE: ":".join(texts)} if texts else {})}
    if not texts:
        env.pop(tuning.VARIABLE, None)
    return tuning.tuned(world, world.build(build), args, env, lambda name: texts.get(name, ""))
