"""Reads Prometheus' text format, as far as serving engines use it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_SAMPLE = re.compile(r"^(?!#|[\w:]*_bucket\{)([A-Za-z_:][\w:]*)(?:\{(.*)\})?[ \t]+(\S+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Sample(NamedTuple):
    """One line: labels as they stand between the braces, value."""

    labels: str
    value: float

    def label(self, name: str) -> str | None:
        return dict(_LABEL.findall(self.labels)).get(name)


Samples = Mapping[str, list[Sample]]
"""name of a metric -> its samples"""


def parse(text: str) -> Samples:
    """All samples but those of histogram buckets; comments and lines that make no sense are left out.

    Buckets are two lines in three of what SGLang prints, and a server under load is read a hundred times a point.
    """
    out: dict[str, list[Sample]] = {}
    for name, labels, value in _SAMPLE.findall(text):
        try:
            out.setdefault(name, []).append(Sample(labels, float(value)))
        except ValueError:
            continue
    return {name: samples for name, samples in out.items() if samples}


def total(samples: Samples, name: str) -> float | None:
    """Sum over all label sets of a metric; `None` when there is none."""
    found = samples.get(name)
    return sum([s.value for s in found]) if found else None


def highest(samples: Samples, name: str) -> float | None:
    """The largest value over all label sets; `None` when there is none."""
    return max([s.value for s in samples.get(name, ())], default=None)


def mean_positive(samples: Samples, name: str) -> float | None:
    """Mean over label sets that say anything (0 = not in use); `None` when none does."""
    values = [s.value for s in samples.get(name, ()) if s.value > 0]
    return sum(values) / len(values) if values else None
