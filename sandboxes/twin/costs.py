"""What one engine step costs, as numbers: made from geometry, layout and the world's efficiencies in `layout.py`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """Seconds and bytes of one replica, per accelerator where accelerators share the work.

    A decode step of `b` requests verifies `n = b x verify` tokens and takes

        fixed + n x token + max(memory(n), n x matrix) + drafts + kappa x (sum of contexts)

    with memory(n) the time to read the shared weights and the experts that n tokens touch, each expert E of k chosen:
    E (1 - (1 - k/E)^n). A prefill of m tokens whose attention spans `pairs` (query, key) pairs takes

        prompt_fixed + max(weights, m x prompt_token) + pairs x pair
    """

    fixed: float
    token: float
    matrix: float
    shared_read: float
    expert_read: float
    experts: int
    per_token: int
    expert_row: float
    kappa: float
    drafts: float
    prompt_fixed: float
    prompt_token: float
    prompt_read: float
    pair: float
    verify: int = 1

    def touched(self, tokens: float) -> float:
        """Expected distinct experts of a layer."""
        if not self.experts:
            return 0.0
        missed: float = (1.0 - self.per_token / self.experts) ** tokens
        return self.experts * (1.0 - missed)

    def step(self, batch: int) -> float:
        """Seconds of a decode step of `batch` requests, but for what grows with their contexts."""
        tokens = batch * self.verify
        touched = self.touched(tokens)
        memory = self.shared_read + touched * self.expert_read
        return (
            self.fixed
            + tokens * self.token
            + max(memory, tokens * self.matrix)
            + touched * self.expert_row
            + self.drafts
        )

    def prefill(self, tokens: float, pairs: float) -> float:
        """Seconds of a prefill batch."""
        return self.prompt_fixed + max(self.prompt_read, tokens * self.prompt_token) + pairs * self.pair
