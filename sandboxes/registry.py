"""Asking a registry of container images: which digest a tag stands for, how large it is, and bringing it here.

Through the daemon, which knows the registry's credentials and mirrors; day0 holds none.
"""

from __future__ import annotations

from collections.abc import Sequence

from day0.runs.errors import Infrastructure
from day0.sandboxes.docker_engine import DockerEngine
from day0.sandboxes.images import missing


class Registry:
    """Placeholder until written."""

    def digest(self, name: str, known: Sequence[str]) -> str:
        raise missing(name, known)

    def pull(self, engine: DockerEngine, reference: str) -> None:
        raise Infrastructure(reference)
