"""Reads Prometheus' text format, as far as serving engines use it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Sample:
    """One line: name, labels, value."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float

    def label(self, name: str) -> str | None:
        return dict(self.labels).get(name)


def parse(text: str) -> tuple[Sample, ...]:
    """All samples but those of histogram buckets; comments and lines that make no sense are left out.

    Buckets are two lines in three of what SGLang prints, and a server under load is read four times a second.
    """
    out = []
    for line in text.splitlines():
        match = None if line.startswith("#") or "_bucket{" in line else _SAMPLE.match(line)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        out.append(Sample(match[1], tuple(_LABEL.findall(match[2] or "")), value))
    return tuple(out)


def total(samples: Iterable[Sample], name: str, **labels: str) -> float | None:
    """Sum over all label sets of a metric (those with these labels); `None` when there is none."""
    values = [s.value for s in samples if s.name == name and all(s.label(k) == v for k, v in labels.items())]
    return sum(values) if values else None


def highest(samples: Iterable[Sample], name: str) -> float | None:
    """The largest value over all label sets; `None` when there is none."""
    return max((s.value for s in samples if s.name == name), default=None)


def mean_positive(samples: Iterable[Sample], name: str) -> float | None:
    """Mean over label sets that say anything (0 = not in use); `None` when none does."""
    values = [s.value for s in samples if s.name == name and s.value > 0]
    return sum(values) / len(values) if values else None
