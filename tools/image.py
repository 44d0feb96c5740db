"""An image on a node: its name resolved before anything is planned, pulled with patience where it is not there."""

from __future__ import annotations

from day0.runs.errors import DiskFull, Infrastructure, NodeLost, Timeout
from day0.sandboxes.base import Node

TRIES = 5
FIRST_WAIT_S = 15.0
"""Node seconds after the first download that broke; twice as long after each further one."""


def ready(node: Node, name: str) -> str:
    """The digest of an image that is on the node when this returns.

    Raises `Refused` with the nearest names where there is no such image; `Infrastructure` when every try to download
    it broke (the last one says how), `DiskFull`, `NodeLost`, `Cancelled`.
    """
    digest, wait_s = node.images.resolve(name), FIRST_WAIT_S
    for attempt in range(1, TRIES + 1):
        if node.images.has(digest):
            return digest
        try:
            node.images.pull(digest)
        except (DiskFull, NodeLost, Timeout):
            raise
        except Infrastructure as error:
            if attempt == TRIES:
                raise Infrastructure(f"{name} could not be downloaded in {TRIES} tries: {error}") from error
            node.clock.sleep(wait_s)
            wait_s *= 2
    return digest
