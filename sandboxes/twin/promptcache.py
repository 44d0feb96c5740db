"""The KV pool of one replica under a trace: prompts that begin alike share what is computed of it, block by block.

A prompt is a list of blocks, as `tools/loadplan.py` plans it: all but its last one are equally long, the last one is
the rest. Two prompts have a block in common where their lists are alike up to it, as in a radix tree; the last token
of a prompt is always computed. Blocks that no running request uses go by last use, later blocks of a prompt before
earlier ones.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

Blocks = tuple[int, ...]


class Prompts:
    """The prompts of a load as paths in a tree: `paths[n]` are the nodes of prompt n and their tokens."""

    def __init__(self, blocks: Sequence[Blocks], tokens: Sequence[int], size: int) -> None:
        self.tokens = tuple(tokens)
        known: dict[tuple[int, int], int] = {}
        self.paths: list[tuple[tuple[int, int], ...]] = []
        for listed, prompt in zip(blocks, tokens, strict=True):
            at, left, path = -1, prompt, []
            for number, block in enumerate(listed):
                at = known.setdefault((at, block), len(known))
                own = left if number == len(listed) - 1 else min(size, left)
                left -= own
                path.append((at, own))
            self.paths.append(tuple(path))


class PromptPool:
    """Tokens: `held` by running requests + `cached` <= `capacity`, always; the same calls and figures as of `Pool`."""

    traced = True
    prefix_tokens = 0

    def __init__(self, capacity: int, prompts: Prompts, *, reuse: bool) -> None:
        self.capacity, self.prompts, self.reuse = capacity, prompts, reuse
        self.held = self.cached = self.evicted = self.pinned = 0
        self.entries: OrderedDict[int, int] = OrderedDict()
        self.locks: dict[int, int] = {}
        self.used: dict[int, list[tuple[int, ...]]] = {}
        """nodes locked for each prompt, a list for each request that runs with it: alike ones are alike"""

    def warm(self, prefixes: range) -> None:
        """Nothing is put in place before a trace."""

    def admit(self, prefix: int, prompt: int, output: int) -> int:
        """Reserves room for a request: the prompt tokens found in the cache, or -1 when there is no room now."""
        found, nodes = 0, []
        for node, size in self.prompts.paths[prefix] if self.reuse else ():
            have = self.entries.get(node, 0)
            found += min(have, size)
            if have:
                nodes.append(node)
            if have < size:
                break
        found = min(found, prompt - 1)
        for node in nodes:
            self._lock(node)
        if not self._room(prompt + output - found):
            self._unlock(nodes)
            return -1
        self.held += prompt + output - found
        self.used.setdefault(prefix, []).append(tuple(nodes))
        return found

    def filled(self, prefix: int) -> int:
        """A whole prompt was computed: it is there for others now; the tokens that left `held` by that."""
        if not self.reuse:
            return 0
        moved, nodes = 0, list(self.used[prefix].pop())
        for node, size in self.prompts.paths[prefix]:
            have = self.entries.get(node, 0)
            if have < size:
                self.entries[node] = size
                moved += size - have
                self.pinned += size - have if node in self.locks else 0
            if node not in nodes:
                nodes.append(node)
                self._lock(node)
        self.used[prefix].append(tuple(nodes))
        self.cached += moved
        self.held -= moved
        return moved

    def release(self, number: int, prefix: int, own: int, tail: int) -> None:
        """A request ended: `own` tokens were held for it. Its answer stays until somebody needs the room.

        `tail` counts its prompt, too: of that, what stood here twice is given up.
        """
        self.held -= own
        if not self.reuse:
            self.used[prefix].pop()
            return
        nodes = self.used[prefix].pop()
        answer = min(own, tail - self.prompts.tokens[prefix])
        if answer > 0:
            self.entries[-1 - number] = answer
            self.cached += answer
        self._unlock(nodes)
        for node in reversed(nodes):
            if node in self.entries:
                self.entries.move_to_end(node)

    def _lock(self, node: int) -> None:
        had = self.locks.get(node, 0)
        self.locks[node] = had + 1
        if not had:
            self.pinned += self.entries[node]

    def _unlock(self, nodes: Sequence[int]) -> None:
        for node in nodes:
            left = self.locks[node] - 1
            if left:
                self.locks[node] = left
            else:
                del self.locks[node]
                self.pinned -= self.entries[node]

    def _room(self, need: int) -> bool:
        """Evicts the least recently used until `need` tokens are free; what running requests use stays."""
        spared = 0
        while self.capacity - self.held - self.cached < need:
            if len(self.entries) <= spared:
                return False
            key, tokens = self.entries.popitem(last=False)
            if key in self.locks:
                self.entries[key] = tokens
                spared += 1
            else:
                self.cached -= tokens
                self.evicted += tokens
        return True
