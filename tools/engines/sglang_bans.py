"""SGLang's flags and variables that a candidate may not set while results count, each with the reason.

Three kinds: day0's own (addresses, names, files), what needs a person's consent (code from the checkpoint), and
what fakes a result: forced acceptance, random weights, fewer layers or experts, shorter contexts.
"""

from __future__ import annotations

import re

from day0.runs.engine_facts import ModelFacts
from day0.runs.errors import Refused
from day0.runs.workload import FlagValue
from day0.tools.engines import rules

OURS = rules.words(
    """host port model-path served-model-name api-key admin-api-key config enable-metrics revision tokenizer-path
    fastapi-root-path ssl-keyfile ssl-certfile ssl-ca-certs ssl-keyfile-password grpc-port grpc-mode smg-grpc-mode
    smg-http-sidecar-port sidecar sidecar-args use-ray nnodes node-rank dist-init-addr log-level-http
    crash-dump-folder file-storage-path export-metrics-to-file-dir tool-server custom-weight-loader
    gated-launch-port"""
)
FAKING = rules.words(
    """allow-auto-truncate preferred-sampling-params skip-tokenizer-init is-embedding encoder-only
    prefill-only-disable-kv-cache quantize-and-serve"""
)
FAKING_ENV = re.compile(r"SGLANG_(SIMULATE|TEST|DSPARK_SIMULATE|DEBUG|FAKE|USE_CPU_ENGINE|PLATFORM|PLUGINS|KV_CANARY)")
_PICKLE = rules.words("pt npcache remote remote_instance private flash_rl")


def check(name: str, value: FlagValue, model: ModelFacts | None) -> None:
    """Raises `Refused` for a banned flag; `name` is the engine's own name, not an alias, its value already checked."""
    if name in OURS or name.startswith("disaggregation-"):
        raise Refused(f"--{name} is set by day0 itself")
    if name in FAKING or name.startswith(("debug-", "kv-canary")):
        raise Refused(f"--{name} changes what is served or measured; it is banned while results count")
    if name == "load-format" and value == "dummy":
        raise Refused("--load-format dummy serves random weights: banned")
    check_code(name, value)
    if name.startswith("speculative-accept-threshold") and float(value) < 1:
        raise Refused(f"--{name} below 1 accepts tokens that the model would not write: banned")
    if name == "json-model-override-args":
        _check_override(str(value))
    if name == "context-length" and (model is None or rules.size(value) < model.context):
        full = f"the model's {model.context}" if model else "the model's own"
        raise Refused(f"--context-length shorter than {full} makes the work easier: banned")


def check_code(name: str, value: FlagValue) -> None:
    """Raises `Refused` for a flag that runs a checkpoint's own code or takes weights from elsewhere (S60, S61)."""
    if name in ("load-format", "speculative-draft-load-format") and (value == "dummy" or value in _PICKLE):
        raise Refused(
            f"--{name} {value} runs code from the checkpoint or serves other weights: use auto or safetensors"
        )
    if name == "trust-remote-code":
        raise Refused(
            "--trust-remote-code runs code from the checkpoint: it needs a person's consent for this revision, "
            "`day0 consent MODEL --remote-code`"
        )


def _check_override(text: str) -> None:
    keys = sorted(set(rules.geometry_keys(text)))
    if keys:
        raise Refused(f"--json-model-override-args must not change the model's geometry ({', '.join(keys)}): banned")
