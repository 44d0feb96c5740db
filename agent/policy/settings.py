"""A candidate as the settings that a search reasons about: layout, speculation, and every other key with its value.

Some flags only come along with another: the algorithm and the draft tokens of speculation say nothing that its depth
does not. They are no settings of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from day0.agent.policy.expectation import Shape, shape_of
from day0.runs.candidate import Candidate
from day0.runs.workload import FlagValue

TIED = frozenset(
    {
        "speculative-algorithm",
        "speculative-eagle-topk",
        "speculative-num-draft-tokens",
        "dsa-decode-backend",
        "hicache-ratio",
        "hicache-write-policy",
    }
)
LAYOUT = frozenset({"tp-size", "dp-size", "pp-size", "ep-size", "attn-dp-size", "enable-dp-attention"})
DEPTH = "speculative-num-steps"
SAFE_REDUCE = "disable-custom-all-reduce"
SPECULATION = "speculation"
UNSAFE = "speculation with the custom all-reduce"
TUNED = "tuned kernels"


class Plan:
    """Something that could climb: a candidate as far as it is known, and whether kernels are tuned for it first.

    `key` tells plans of one run apart; it is much cheaper than comparing candidates.
    """

    __slots__ = ("candidate", "key", "tune")

    def __init__(self, candidate: Candidate, *, tune: bool = False) -> None:
        self.candidate, self.tune = candidate, tune
        flags, env = tuple(sorted(candidate.flags.items())), tuple(sorted(candidate.env.items()))
        self.key = (flags, env, candidate.build, candidate.patches, candidate.tables, tune)


@dataclass(frozen=True)
class Settings:
    """`values`: key -> value as text, of what differs from the target's own; `names`: one for each setting."""

    shape: Shape
    values: Mapping[str, str]
    names: frozenset[str]
    patches: frozenset[str]

    def value(self, key: str) -> str | None:
        """The value of a key; None where it is the target's own or absent."""
        return self.values.get(key)


def text_of(value: object) -> str:
    """A value as it stands in a setting's name."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def name_of(key: str, value: object) -> str:
    """`kv-cache-dtype=fp8_e4m3`."""
    return f"{key}={text_of(value)}"


def settings_of(candidate: Candidate, base: Mapping[str, FlagValue], base_env: Mapping[str, str]) -> Settings:
    """The settings of a candidate on a target with these flags and variables of its own."""
    shape = shape_of(candidate)
    flags = {k: text_of(v) for k, v in candidate.flags.items() if base.get(k) != v and k not in LAYOUT | TIED}
    env = {k: v for k, v in candidate.env.items() if base_env.get(k) != v}
    values = {**flags, **env}
    names = {name_of(k, v) for k, v in values.items()}
    names |= {f"tp={shape.tp}", f"build={candidate.build}"}
    if shape.ep > 1:
        names.add(f"ep={shape.ep}")
    if shape.attention_dp > 1:
        names.add(f"attention-dp={shape.attention_dp}")
    if shape.speculation:
        names.add(SPECULATION)
        if SAFE_REDUCE not in candidate.flags:
            names.add(UNSAFE)
    return Settings(shape, values, frozenset(names), frozenset(candidate.patches))
