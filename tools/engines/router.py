"""SGLang's own router in front of separate servers: another form of launch for the replicas of a candidate.

`python -m sglang_router.launch_server` (package sglang-router, read in release 0.3.2) takes all flags of a server and
its own, with `router-` before their names. It starts one server for each of `--dp-size`, on ports from a base port on,
and listens itself where one server would. Servers behind it are told apart by their addresses.
What one of them runs with only itself tells; `/engine_metrics` gathers their counters (tried with the router before
two stand-ins of servers).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import httpx
from day0.runs.engine_facts import FlagSpec
from day0.runs.workload import FlagValue
from day0.tools.engines.help import parse_help
from day0.tools.engines.prometheus import Samples

MODULE = ("python", "-m", "sglang_router.launch_server")
PACKAGE = "sglang-router"
FLAGS = frozenset(
    {"router-policy", "router-cache-threshold", "router-balance-abs-threshold", "router-balance-rel-threshold"}
)
"""What decides where a request goes; its other flags are about outages, clusters and logs."""


def flags(help_text: str) -> tuple[FlagSpec, ...]:
    """The flags of the router that a candidate may set, from its own `--help`."""
    return tuple(flag for flag in parse_help(help_text) if flag.name in FLAGS)


def routed(given: Mapping[str, FlagValue]) -> bool:
    """Whether a candidate's flags ask for separate servers behind a router."""
    return not FLAGS.isdisjoint(given)


def places(port: int) -> tuple[str, str]:
    """Where its servers begin to listen: beside the router itself."""
    return "--router-dp-worker-base-port", str(port + 1)


def named(found: Samples) -> Samples:
    """The samples under the names that servers give them: a router writes `sglang_` where they write `sglang:`."""
    return {re.sub(r"\Asglang_", "sglang:", name): samples for name, samples in found.items()}


def workers(http: httpx.Client) -> tuple[str, ...]:
    """Addresses of the servers behind a router, in order of their text. Raises `httpx.HTTPError`."""
    reply = http.get("/workers", timeout=30.0)
    reply.raise_for_status()
    told = reply.json()
    found = told.get("workers", ()) if isinstance(told, dict) else ()
    return tuple(sorted(str(worker["url"]) for worker in found if isinstance(worker, dict) and "url" in worker))
