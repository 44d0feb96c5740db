"""SGLang as an engine.

Flags, endpoints, metric names and log lines were read in the published wheels of sglang 0.5.10 to 0.5.23.
Names move between versions: a metric that is missing is unknown, never 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import httpx
from day0.runs.candidate import Candidate
from day0.runs.engine_facts import BootFacts, EngineFacts, ModelFacts
from day0.runs.errors import CandidateFailed, Infrastructure, Refused
from day0.runs.facts import FailureClass
from day0.runs.workload import FlagValue, Target
from day0.sandboxes.base import Process, Sandbox
from day0.tools.engines import prometheus, router, rules, sglang_bans
from day0.tools.engines.base import Counters, Launch
from day0.tools.engines.help import parse_help, with_types
from day0.tools.programs import source

SERVER = ("python", "-m", "sglang.launch_server")
FACTS_TIMEOUT_S = 180.0
_SIGNS = (
    "num_requests_total",
    "inter_token_latency_seconds_count",  # every streamed piece
    "time_to_first_token_seconds_count",
    "realtime_tokens_total",  # every 40 decode steps and every prefill
)
_GENERATING = ("/generate", "/v1/completions", "/v1/chat/completions")
_RESOLVED_BY_ENGINE = re.compile(
    r"cuda-graph|speculative-|attention-backend|attn-dp|dp-attention|moe-|ep-size|mem-fraction|max-running|chunked-prefill"
    r"|page-size|kv-cache-dtype|dsa-|nsa-|mamba|radix-cache-strategy|disable-cuda-graph|overlap|load-balance|quantization"
    r"|max-prefill|mixed-chunk|stream-|retraction|deprecated"
)
"""Flags that SGLang is documented to resolve by itself from the model, the platform or other flags."""
_KEEP = rules.words(
    """attention_backend sampling_backend dtype kv_cache_dtype quantization tp_size dp_size pp_size ep_size attn_dp_size
    chunked_prefill_size max_prefill_tokens max_running_requests max_total_tokens mem_fraction_static page_size
    schedule_policy disable_radix_cache disable_overlap_schedule enable_torch_compile speculative_algorithm
    speculative_num_steps speculative_eagle_topk speculative_num_draft_tokens moe_runner_backend device
    context_length tool_call_parser reasoning_parser"""
)


class Sglang:
    """The adapter; it remembers nothing. `consents`: what a person allowed for the revision that it serves."""

    name = "sglang"
    caches: tuple[str, ...] = ("jit",)
    ready_line = b"The server is fired up and ready to roll"
    fatal = (
        rb"error while attempting to bind on address|Initialization failed\. warmup error|Port \d+ is already in use"
    )
    fallback = (
        rb"using heuristic FlyDSL fallback|using [12]stage default for|not found tuned config in|"
        rb"Using default MoE kernel config|falling back to loop|Fallback to triton version"
    )

    def __init__(self, consents: frozenset[str] = frozenset()) -> None:
        self._consents = consents

    def take_facts(self, sandbox: Sandbox, build: str) -> EngineFacts:
        """See the port. Costs two imports of SGLang, 6-7 s each on a slow core, once per build."""
        text = _finished(sandbox.spawn((*SERVER, "--help"), env={"COLUMNS": "200"}), "its --help")
        flags = parse_help(text.decode(errors="replace"))
        if not any(f.name == "model-path" for f in flags):
            raise Infrastructure(f"the engine's --help lists no flags; it ends with: {_tail(text)}")
        sandbox.write("sglang_facts.py", source("sglang_facts"))
        output = _finished(sandbox.spawn(("python", "sglang_facts.py")), "its versions").decode(errors="replace")
        line = next((ln for ln in output.splitlines() if ln.startswith("day0-facts ")), None)
        if line is None:
            raise Infrastructure(
                f"the engine does not tell its versions; its answer ends with: {_tail(output.encode())}"
            )
        facts = json.loads(line.removeprefix("day0-facts "))
        capabilities = {str(k): str(v) for k, v in facts["capabilities"].items()}
        if facts["problem"]:
            capabilities["types_unknown"] = facts["problem"][:300]
        packages = {str(k): str(v) for k, v in facts["packages"].items()}
        if router.PACKAGE in packages:
            text = _finished(sandbox.spawn((*router.MODULE, "--help"), env={"COLUMNS": "200"}), "its router's --help")
            flags += router.flags(text.decode(errors="replace"))
        return EngineFacts(
            engine=self.name,
            build=build,
            version=packages.get("sglang", "unknown"),
            flags=with_types(flags, facts["types"]),
            packages=packages,
            capabilities=capabilities,
        )

    def check(self, candidate: Candidate, facts: EngineFacts, model: ModelFacts | None = None) -> None:
        """See the port."""
        if candidate.engine != self.name or candidate.build != facts.build:
            raise Refused(
                f"these flags belong to {facts.engine} {facts.build}, not to {candidate.engine} {candidate.build}"
            )
        seen: dict[str, str] = {}
        for name, value in candidate.flags.items():
            flag = rules.known_flag(name, facts)
            if flag.name in seen:
                raise Refused(f"--{name} and --{seen[flag.name]} are the same flag")
            seen[flag.name] = name
            rules.check_value(flag, value)
            sglang_bans.check(flag.name, value, model)
        rules.check_env(candidate.env, facts, sglang_bans.FAKING_ENV)

    def check_target(self, target: Target, model: ModelFacts) -> None:
        """See the port."""
        for name, value in target.base_flags.items():
            try:
                sglang_bans.check(name, value, model)
            except ValueError:
                raise Refused(f"--{name} can't have the value {value!r}") from None

    def launch(self, candidate: Candidate, facts: EngineFacts, *, host: str, port: int) -> Launch:
        """See the port. Adds the counters' endpoint and keeps the engine offline; nothing else is decided here."""
        routed = router.routed(candidate.flags)
        argv = [*(router.MODULE if routed else SERVER), "--model-path", candidate.model]
        argv += ["--host", host, "--port", str(port), *(router.places(port) if routed else ()), "--enable-metrics"]
        for name in sorted(candidate.flags):
            flag, value = rules.known_flag(name, facts), candidate.flags[name]
            sglang_bans.check_code(flag.name, value)  # whoever set it: nobody consented
            if not flag.takes_value:
                argv.append(f"--{name}" if value else f"--no-{name}")
            else:
                argv += [f"--{name}", *(rules.render(value).split() if flag.many else [rules.render(value)])]
        if "remote-code" in self._consents:
            argv.append("--trust-remote-code")
        # SPT_NOENV: schedulers rename themselves, which overwrites the environment by which a process is known as ours
        ours = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "PYTHONUNBUFFERED": "1", "SPT_NOENV": "1"}
        return Launch(tuple(argv), {**ours, **candidate.env})

    def answers(self, http: httpx.Client, *, timeout_s: float = 60.0) -> str:
        """See the port. Eight tokens, past any end: a model that falls silent at once still answers."""
        sampling = {"temperature": 0.0, "max_new_tokens": 8, "ignore_eos": True, "skip_special_tokens": False}
        body = {"text": "The capital of France is", "sampling_params": sampling}
        reply = http.post("/generate", json=body, timeout=timeout_s)
        reply.raise_for_status()
        answer = reply.json()
        text = answer.get("text", "") if isinstance(answer, dict) else ""
        tokens = answer.get("meta_info", {}).get("completion_tokens", 0) if isinstance(answer, dict) else 0
        if not text or tokens < 1:
            said = json.dumps(answer)[:300]
            raise CandidateFailed(FailureClass.ACCURACY_WRONG_OUTPUT, f"a generation came back without text: {said}")
        return str(text)

    def boot_facts(self, http: httpx.Client, candidate: Candidate, ready_s: float, fallback_lines: int) -> BootFacts:
        """See the port: `GET /server_info`."""
        workers = router.workers(http) if router.routed(candidate.flags) else ()
        reply = http.get(f"{workers[0] if workers else ''}/server_info", timeout=30.0)
        reply.raise_for_status()
        info = reply.json()
        states = [s for s in info.get("internal_states") or [] if isinstance(s, dict)]
        if workers:  # one of them answered for all: they were started alike
            states, info["dp_size"] = states * len(workers), len(workers) * int(info.get("dp_size") or 1)
        caps = [
            s["effective_max_running_requests_per_dp"] for s in states if s.get("effective_max_running_requests_per_dp")
        ]
        asked = {_field(name): value for name, value in candidate.flags.items()}
        resolved = {key: _scalar(info[key]) for key in sorted({*_KEEP, *asked}) if key in info}
        differs = {key: str(resolved[key]) for key in asked if key in resolved and not _same(asked[key], resolved[key])}
        return BootFacts(
            ready_s=round(ready_s, 3),
            version=str(info.get("version", "unknown")),
            model_path=str(info.get("model_path", "")),
            resolved=resolved,
            max_running_requests=sum(int(c) for c in caps) if caps else None,
            replicas=max(1, len(states)),
            workers=workers,
            kv_tokens=_kv_tokens(info, states),
            differs=differs,
            fallback_lines=fallback_lines,
        )

    def check_identity(self, candidate: Candidate, facts: EngineFacts, boot: BootFacts) -> None:
        """See the port."""
        wrong = []
        if facts.version not in ("unknown", boot.version):
            wrong.append(f"version {boot.version} runs, {facts.version} was asked")
        if boot.model_path != candidate.model:
            wrong.append(f"model {boot.model_path} is served, {candidate.model} was asked")
        for key, value in boot.differs.items():
            name = key.replace("_", "-")
            if not _RESOLVED_BY_ENGINE.search(name):
                wrong.append(f"--{name} is {value}, {candidate.flags.get(name)} was asked")
        if wrong:
            raise CandidateFailed(FailureClass.IDENTITY, "; ".join(wrong))

    def counters(self, http: httpx.Client, *, timeout_s: float = 5.0) -> Counters:
        """See the port: `GET /metrics`."""
        reply = http.get("/metrics", timeout=timeout_s)
        if reply.status_code == httpx.codes.NOT_FOUND:  # a router: it gathers what its servers say
            reply = http.get("/engine_metrics", timeout=timeout_s)
        reply.raise_for_status()
        found = prometheus.parse(reply.content.decode(errors="replace"))
        if reply.url.path == "/engine_metrics":
            found = router.named(found)

        def total(name: str) -> float | None:
            return prometheus.total(found, f"sglang:{name}")

        signs = [value for name in _SIGNS if (value := total(name)) is not None]
        open_ = found.get("sglang:http_requests_active", ())
        active = [s.value for s in open_ if s.label("endpoint") in _GENERATING]
        return Counters(
            in_flight=sum(active) if active else total("num_running_reqs"),
            progress=sum(signs) if signs else None,
            running=total("num_running_reqs"),
            queued=total("num_queue_reqs"),
            generated_tokens=total("generation_tokens_total"),
            prompt_tokens=total("prompt_tokens_total"),
            cached_tokens=total("cached_tokens_total"),
            finished_requests=total("num_requests_total"),
            kv_use=prometheus.highest(found, "sglang:token_usage"),
            acceptance_length=prometheus.mean_positive(found, "sglang:spec_accept_length"),
            ttft_sum_s=total("time_to_first_token_seconds_sum"),
            ttft_count=total("time_to_first_token_seconds_count"),
            found=_found(found.get("sglang:realtime_tokens_total", ())),
        )

    def flush(self, http: httpx.Client) -> None:
        """See the port. SGLang answers 400 while requests run: raised as `httpx.HTTPStatusError`."""
        http.post("/flush_cache", params={"timeout": "10"}, timeout=30.0).raise_for_status()


def _found(samples: Iterable[prometheus.Sample]) -> tuple[float, ...]:
    """Prompt tokens found in the cache by data-parallel rank, as the schedulers count them (since 0.5.9).

    Behind a router by server, in order of their addresses.
    """
    out: dict[tuple[str, int], float] = {}
    for sample in samples:
        rank = sample.label("dp_rank")
        if rank is not None and rank.isdecimal() and sample.label("mode") == "prefill_cache":
            at = sample.label("worker_addr") or "", int(rank)
            out[at] = out.get(at, 0.0) + sample.value
    if any(server for server, _ in out):
        return tuple(out[at] for at in sorted(out))
    ranks = max((rank for _, rank in out), default=-1) + 1
    return tuple(out.get(("", rank), 0.0) for rank in range(ranks))


def _field(name: str) -> str:
    """The name under which the server reports a flag."""
    aliases = {"tensor-parallel-size": "tp-size", "data-parallel-size": "dp-size", "expert-parallel-size": "ep-size"}
    return aliases.get(name, name).replace("-", "_")


def _scalar(value: Any) -> FlagValue | None:
    return (
        value
        if value is None or isinstance(value, (bool, int, float, str))
        else json.dumps(value, sort_keys=True)[:400]
    )


def _same(asked: FlagValue, resolved: FlagValue | None) -> bool:
    """Whether the server runs what was asked, however it spells it (numbers as text, 16k, lists as JSON)."""
    if asked == resolved or str(asked) == str(resolved):
        return True
    if isinstance(resolved, bool) or resolved is None:
        return False
    try:
        if isinstance(resolved, (int, float)):
            return float(rules.size(asked) if not isinstance(asked, (int, float)) else asked) == float(resolved)
        listed = json.loads(resolved)
    except ValueError:
        return False
    return isinstance(listed, list) and [str(v) for v in listed] == str(asked).split()


def _kv_tokens(info: Mapping[str, Any], states: list[dict[str, Any]]) -> int | None:
    tokens = info.get("max_total_num_tokens")
    if tokens is None:
        capacities = [s.get("memory_usage", {}).get("token_capacity") for s in states]
        tokens = sum(c for c in capacities if c) or None
    return int(tokens) if tokens else None


def _finished(process: Process, what: str) -> bytes:
    ended = process.wait(FACTS_TIMEOUT_S)
    output = process.output(0, 4 << 20)
    if ended.code:
        raise Infrastructure(f"the engine could not tell {what} (exit {ended.code}): {_tail(output)}")
    return output


def _tail(output: bytes) -> str:
    return " ".join(output.decode(errors="replace").split())[-300:]
