"""Where a request goes among the replicas of a simulated server: in turn, to the emptiest, or to what it has cached.

The cache-aware policy is that of sglang-router 0.3.2, as its flags describe it: while loads are alike, a request goes
where the longest beginning of its prompt was sent before, if that is more than a share of it, else where the least
prompt text was sent; when loads differ too much, to the emptiest. What the router believes to be cached is what it
sent; it does not know of evictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from day0.sandboxes.twin.promptcache import Prompts
from day0.sandboxes.twin.replica import ServerSpec

if TYPE_CHECKING:
    from day0.sandboxes.twin.simulate import Load

THRESHOLD = 0.3
FAR, TIMES = 64, 1.5
"""The router's defaults: share of a prompt; difference of requests, and ratio, beyond which loads differ too much."""


class Router:
    """Picks replicas for the requests of one load, in their order."""

    def __init__(self, server: ServerSpec, load: Load, prompts: Prompts | None) -> None:
        self.policy, self.load, self.prompts = server.routing, load, prompts
        self.sent: list[dict[int, int]] = [{} for _ in range(server.replicas)]
        self.text = [0] * server.replicas

    def pick(self, loads: Sequence[int], number: int) -> int:
        """The replica of a request, by how many requests each has now."""
        count = len(loads)
        if self.policy == "round_robin" or count == 1:
            return number % count
        emptiest = loads.index(min(loads))
        if self.policy != "cache_aware":
            return emptiest
        path = self._path(number)
        known = [self._matched(sent, path) for sent in self.sent]
        best = known.index(max(known))
        uneven = max(loads) - min(loads) > FAR and max(loads) > TIMES * min(loads)
        if uneven:
            at = emptiest
        else:
            at = best if known[best] > THRESHOLD * sum(size for _, size in path) else self.text.index(min(self.text))
        for node, size in path:
            self.text[at] += max(0, size - self.sent[at].get(node, 0))
            self.sent[at][node] = max(size, self.sent[at].get(node, 0))
        return at

    def _path(self, number: int) -> Sequence[tuple[int, int]]:
        """What the prompt is made of: (part, tokens); what it shares with no other has a number of its own."""
        prefix, shared = self.load.prefixes[number], self.load.prefix_tokens
        if self.prompts is not None:
            return self.prompts.paths[prefix]
        return ((prefix, shared), (-1 - number, self.load.prompt - shared))

    @staticmethod
    def _matched(sent: dict[int, int], path: Sequence[tuple[int, int]]) -> int:
        found = 0
        for node, size in path:
            had = sent.get(node, 0)
            found += min(had, size)
            if had < size:
                break
        return found
