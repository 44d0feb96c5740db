"""What of day0's own environment a sandbox may see: names on a list, and nothing that looks like a secret."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from day0.sandboxes.redact import looks_secret
from day0.sandboxes.spec import SandboxSpec

ALLOWED = frozenset({"LANG", "LC_ALL", "LC_CTYPE", "TZ"})
REGISTRY = frozenset({
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
})  # fmt: skip
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def base(parent: Mapping[str, str], extra: Iterable[str] = ()) -> dict[str, str]:
    """The allowed part of `parent`."""
    names = ALLOWED | frozenset(extra)
    return {name: parent[name] for name in sorted(names) if name in parent and not looks_secret(name)}


def registry(parent: Mapping[str, str], home: Path) -> dict[str, str]:
    """What a package installer needs to reach the same registry as this user: pip's settings, proxies, CA files.

    A URL in these may hold the registry's own credentials; that is why only `job` sandboxes that ask for the
    registry get them.
    """
    found = {k: v for k, v in parent.items() if k in REGISTRY or (k.startswith("PIP_") and k != "PIP_TARGET")}
    if "PIP_CONFIG_FILE" not in found:
        for config in (home / ".config/pip/pip.conf", home / ".pip/pip.conf"):
            if config.is_file():
                found["PIP_CONFIG_FILE"] = str(config)
                break
    return found


def of_sandbox(
    spec: SandboxSpec, work: Path, caches: Mapping[str, Path], extra: Iterable[str], scratch: Path | None = None
) -> dict[str, str]:
    """The environment of every process in a sandbox, before what `spawn` adds.

    `scratch` is its temporary folder, by default `tmp` in the work folder.
    """
    parent = os.environ
    out = base(parent, extra)
    if spec.role == "job" and spec.network == "registry":
        out |= registry(parent, Path(parent.get("HOME", "/nonexistent")))
    out |= {
        "PATH": f"{spec.environment}/bin:{SYSTEM_PATH}" if spec.environment else SYSTEM_PATH,
        "HOME": str(work / "home"),
        "TMPDIR": str(scratch or work / "tmp"),
        "PYTHONUNBUFFERED": "1",  # output is a sign of life: it must not sit in a buffer
        "PYTHONNOUSERSITE": "1",
    }
    if spec.environment and (Path(spec.environment) / "pyvenv.cfg").exists():
        out["VIRTUAL_ENV"] = spec.environment
    out |= {f"DAY0_CACHE_{name.upper().replace('-', '_')}": str(path) for name, path in caches.items()}
    out |= spec.env
    return out | {"DAY0_ATTEMPT": spec.attempt, "DAY0_EPOCH": str(spec.epoch)}
