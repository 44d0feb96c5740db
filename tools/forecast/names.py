"""Names of models: the shipped table first extended by the caller's, resolved exactly or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from day0.runs.errors import UserError
from day0.runs.geometry import Geometry
from day0.tools.forecast.hardware import document
from day0.tools.forecast.models import geometry


class UnknownModel(UserError):
    """No table knows the name."""


class Names:
    """The alias table. A caller's entry wins over a shipped one of the same name; case does not matter."""

    def __init__(self, extra: Mapping[str, Any] | None = None) -> None:
        shipped: dict[str, Any] = document("models.yaml")["models"]
        added = {k: v for k, v in (extra or {}).items() if isinstance(v, Mapping)}
        self._table: dict[str, Mapping[str, Any]] = {**shipped, **added}
        self._names: dict[str, str] = {}
        for table in (shipped, added):
            for name, entry in table.items():
                for alias in (name, *_listed(entry.get("hf")), *_listed(entry.get("aliases"))):
                    self._names[alias.strip().lower()] = name
        self._built: dict[str, Geometry] = {}

    def find(self, name: str) -> tuple[Geometry, str]:
        """Geometry and family of a model. Raises UnknownModel, or UserError for a garbled entry."""
        key = self._names.get(name.strip().lower())
        if key is None:
            raise UnknownModel(f"model {name!r} is in no table")
        if key not in self._built:
            self._built[key] = geometry(key, self._table[key], self._table)
        return self._built[key], str(self._table[key].get("family", key))

    def architecture(self, name: str) -> str:
        """The serving class that a known model's configuration names; empty where the table does not say."""
        key = self._names.get(name.strip().lower(), "")
        entry: Mapping[str, Any] = self._table.get(key, {})
        while entry and "class" not in entry and entry.get("same_as") in self._table:
            entry = self._table[str(entry["same_as"])]
        return str(entry.get("class", ""))


def _listed(value: object) -> list[str]:
    """Names of an entry: a list, or one alone; anything else names nothing."""
    if isinstance(value, str):
        return [value]
    return [item for item in value if isinstance(item, str)] if isinstance(value, (list, tuple)) else []
