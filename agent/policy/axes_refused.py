"""Flags of SGLang that matter on ROCm, and why some of them are no axis of the search.

`MATTERS` lists what the server arguments of releases 0.5.10 to 0.5.23 say about speed, memory or being served at all:
0 = always set, 1 = first-class. Every one of them is an option of some axis or stands in `NO_AXIS`; a test holds that.
"""

from __future__ import annotations

from collections.abc import Mapping

MATTERS: Mapping[str, int] = {
    "model-path": 0,
    "host": 0,
    "port": 0,
    "trust-remote-code": 1,
    "quantization": 1,
    "kv-cache-dtype": 1,
    "tp-size": 1,
    "dp-size": 1,
    "attn-dp-size": 1,
    "enable-dp-attention": 1,
    "ep-size": 1,
    "mem-fraction-static": 1,
    "max-running-requests": 1,
    "chunked-prefill-size": 1,
    "disable-radix-cache": 1,
    "attention-backend": 1,
    "dsa-prefill-backend": 1,
    "dsa-decode-backend": 1,
    "moe-runner-backend": 1,
    "disable-shared-experts-fusion": 1,
    "enable-aiter-allreduce-fusion": 1,
    "disable-custom-all-reduce": 1,
    "cuda-graph-max-bs-decode": 1,
    "cuda-graph-max-bs": 1,
    "speculative-algorithm": 1,
    "speculative-num-steps": 1,
    "speculative-eagle-topk": 1,
    "speculative-num-draft-tokens": 1,
    "enable-metrics": 1,
    "watchdog-timeout": 1,
}
"""flag -> how much it matters; names of several releases stand side by side where a flag was renamed"""

NO_AXIS: Mapping[str, str] = {
    "model-path": "day0 sets it: the checkpoint is chosen before the run, by the forecast of each precision offered",
    "host": "day0 sets it: a server listens on its own loopback",
    "port": "day0 sets it: every boot gets a fresh one",
    "trust-remote-code": "code of a model's repository needs a person's consent for that revision; no speed in it",
    "quantization": "the checkpoint's own configuration says it; overriding it serves another model or none",
    "enable-metrics": "day0 sets it: the ladder reads the server's counters",
    "watchdog-timeout": "the ladder has its own rule of progress; a longer timeout only hides a dead-lock",
}
"""flag of `MATTERS` -> why it is no axis"""

NEITHER: Mapping[str, str] = {
    "checkpoint": "a run has one; which of a model's published precisions it serves is chosen before, by forecast",
    "engine": "a run has one; what speaks against the others is said before the run",
    "draft model": "EAGLE here means the checkpoint's own draft layer; another one is a second checkpoint",
    "prefill-decode disaggregation": "it needs more nodes than one, and day0 searches one",
    "pipeline parallelism": "it disables overlap and most speculation; a node's links favour tensor parallelism",
}
"""what others search and day0 does not -> why"""
