"""Which containers are ours, and removing those whose owner died: by label, and by nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from day0.runs.errors import Infrastructure
from day0.sandboxes import identity, record
from day0.sandboxes.docker_build import LABEL
from day0.sandboxes.docker_engine import DockerEngine
from day0.sandboxes.docker_link import gone
from day0.sandboxes.identity import Known
from day0.sandboxes.spec import SandboxSpec, Sweep

NODE, OWNER, ATTEMPT, EPOCH, ROLE = (f"io.day0.{name}" for name in ("node", "owner", "attempt", "epoch", "role"))

RELAY = "relay"
"""Role of the containers that only hold a network: a sweep removes them but counts what ran."""


def labels(node: str, spec: SandboxSpec, role: str) -> dict[str, str]:
    """Of a container for `spec`; `node` is the node's folder: two homes on one machine never touch each other's."""
    owner = json.dumps({"world": identity.world(), "owner": record.own()})
    return {NODE: node, OWNER: owner, ATTEMPT: spec.attempt, EPOCH: str(spec.epoch), ROLE: role}


def sweep(engine: DockerEngine, node: str) -> Sweep:
    """Removes containers of this node whose owner is dead. One whose label does not say who owns it is left alone."""
    stopped: list[tuple[str, str]] = []
    failed: list[tuple[str, str]] = []
    for found in engine.labelled({NODE: node}):
        attempt = found["Labels"].get(ATTEMPT, "")
        if _owned(found):
            continue
        try:
            left = gone(engine, [found["Id"]])
        except Infrastructure:
            left = [found["Id"]]
        if left:
            failed.append((found["Id"][:12], attempt))
        elif found.get("State") == "running" and found["Labels"].get(ROLE) != RELAY:
            stopped.append((found["Id"][:12], attempt))
    return Sweep(tuple(stopped), tuple(failed))


def _owned(found: Mapping[str, Any]) -> bool:
    try:
        raw = json.loads(found["Labels"][OWNER])
        return raw["world"] == identity.world() and identity.alive(Known(*raw["owner"]))
    except (KeyError, ValueError, TypeError):
        return True


def prune(engine: DockerEngine, node: str, keep: Iterable[str], before: float = float("inf")) -> tuple[str, ...]:
    """Removes images that a node's folder stands as builder of and that were made before a moment (Unix time).

    Those in `keep` (IDs) and those that something needs stay. Returns the IDs that went.
    """
    kept = frozenset(keep)
    ours = [image for image in engine.built({LABEL: node}, before) if image not in kept]
    return tuple(image for image in ours if engine.discard(image))
