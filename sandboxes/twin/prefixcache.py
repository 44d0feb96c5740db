"""The KV pool of one replica: what running requests hold, and what earlier ones left for reuse.

A radix tree gives up its least recently used leaves; a shared prefix with younger tails below it therefore goes after
them. Keeping prefixes and tails in one order of last use, a tail always older than its prefix, gives the same order.
"""

from __future__ import annotations

from collections import OrderedDict


class Pool:
    """Tokens: `held` by running requests (their reserved output included) + `cached` <= `capacity`, always.

    `pinned` of the cached ones belong to prefixes of running requests: nobody else can have them, so they are in use.
    """

    traced = False
    """whether prompts share as they come, not a prefix put in place"""
    __slots__ = ("cached", "capacity", "entries", "evicted", "held", "locks", "pinned", "prefix_tokens", "reuse")

    def __init__(self, capacity: int, prefix_tokens: int, *, reuse: bool) -> None:
        self.capacity, self.prefix_tokens, self.reuse = capacity, prefix_tokens, reuse and prefix_tokens > 0
        self.held = self.cached = self.evicted = self.pinned = 0
        self.entries: OrderedDict[int, int] = OrderedDict()
        self.locks: dict[int, int] = {}

    def warm(self, prefixes: range) -> None:
        """Puts prefixes in place as priming did; the last ones stay where not all fit."""
        if self.reuse:
            for prefix in prefixes:
                if self._room(self.prefix_tokens):
                    self.entries[prefix] = self.prefix_tokens
                    self.cached += self.prefix_tokens

    def admit(self, prefix: int, prompt: int, output: int) -> int:
        """Reserves room for a request: the prompt tokens found in the cache, or -1 when there is no room now."""
        found = self.reuse and prefix in self.entries
        need = prompt + output - (self.prefix_tokens if found else 0)
        if self.capacity - self.held - self.cached < need:
            if found:
                self._lock(prefix)
            fits = self._room(need)
            if found:
                self._unlock(prefix)
            if not fits:
                return -1
        self.held += need
        if not found:
            return 0
        self._lock(prefix)
        return self.prefix_tokens

    def filled(self, prefix: int) -> int:
        """A whole prompt was computed: its prefix is there for others now; the tokens that left `held` by that."""
        if not self.reuse:
            return 0
        if prefix in self.entries:  # another request was computing it too: this copy goes when its request ends
            self._lock(prefix)
            return 0
        self.entries[prefix] = self.prefix_tokens
        self._lock(prefix)
        self.cached += self.prefix_tokens
        self.held -= self.prefix_tokens
        return self.prefix_tokens

    def release(self, number: int, prefix: int, own: int, tail: int) -> None:
        """A request ended: `own` tokens were held for it, of which `tail` stay until somebody needs the room."""
        self.held -= own
        if self.reuse:
            self.entries[-1 - number] = tail
            self.cached += tail
            self._unlock(prefix)
            if prefix in self.entries:
                self.entries.move_to_end(prefix)

    def _lock(self, prefix: int) -> None:
        had = self.locks.get(prefix, 0)
        self.locks[prefix] = had + 1
        if not had:
            self.pinned += self.prefix_tokens

    def _unlock(self, prefix: int) -> None:
        left = self.locks[prefix] - 1
        if left:
            self.locks[prefix] = left
        else:
            del self.locks[prefix]
            self.pinned -= self.prefix_tokens

    def _room(self, need: int) -> bool:
        """Evicts the least recently used until `need` tokens are free; locked prefixes stay."""
        entries, locks = self.entries, self.locks
        spared = 0
        while self.capacity - self.held - self.cached < need:
            if len(entries) <= spared:
                return False
            key, tokens = entries.popitem(last=False)
            if key in locks:
                entries[key] = tokens
                spared += 1
            else:
                self.cached -= tokens
                self.evicted += tokens
        return True
