"""Frozen values: the base of everything that crosses a boundary, and their canonical form."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, NoReturn, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, PlainSerializer

K = TypeVar("K")
V = TypeVar("V")


class Frozen(BaseModel):
    """An immutable value: unknown keys are refused, equality is by content."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, ser_json_inf_nan="strings")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other fields. What was derived and kept of the original (`cached_property`) is derived anew."""
        copied = super().model_copy(update=update, deep=deep)
        for derived in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[derived]
        return copied

    def canonical(self) -> str:
        """Canonical JSON: keys sorted, no blanks, absent and default values spelled out alike."""
        return canonical_json(self.model_dump(mode="json"))

    def digest(self) -> str:
        """`sha256:` + hex digest of the canonical JSON."""
        return "sha256:" + hashlib.sha256(self.canonical().encode()).hexdigest()


class FrozenMap(dict[K, V]):
    """A dict that cannot change after it was made. Serialised with sorted keys."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a frozen map cannot change; make a new one with {**old, ...}")

    __setitem__ = __delitem__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(sorted((str(k), str(v)) for k, v in self.items())))


def _sorted(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value[key] for key in sorted(value)}


Map = Annotated[Mapping[str, V], AfterValidator(FrozenMap), PlainSerializer(_sorted, return_type=dict[str, Any])]
"""A frozen mapping with string keys as a field type: `flags: Map[int]`."""


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no blanks: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def sha256(data: bytes | str) -> str:
    """`sha256:` + hex digest of bytes, or of text as UTF-8."""
    return "sha256:" + hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()
