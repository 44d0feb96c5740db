"""SGLang's own benchmark client, imported once and made to tell what it sees. Runs in the harness environment.

The request functions of `sglang.bench_serving` (0.5.9; `sglang.benchmark.serving` in later releases) are what the
field publishes its figures with. Two seams are used, both by name and both optional: the output object is noticed
when it is made, so that a cancelled request keeps what it had; the stream's `meta_info` (prompt and cached tokens,
whether the server gave up; 0.5.9 throws them away) is noticed where the client parses JSON.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import itertools
import json
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

CURRENT: ContextVar[dict[str, Any]] = ContextVar("request")


class Args(argparse.Namespace):
    """The client's global arguments; what a later version asks for and we don't know reads as None."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


class NotingJson:
    """Stands in for the `json` or `orjson` name of the client module: parses, and keeps `meta_info`."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def loads(self, data: Any) -> Any:
        """As the module's own."""
        value = self._module.loads(data)
        if isinstance(value, dict) and (seen := CURRENT.get(None)) is not None:
            if "meta_info" in value:
                seen["meta"] = value["meta_info"]
                if given_up := aborted(value["meta_info"]):
                    seen["error"] = given_up
            if "error" in value:
                seen["error"] = str(value["error"])[:500]
        return value


def aborted(meta: dict[str, Any]) -> str:
    """Why the server gave a request up, "" where it did not.

    Within a stream it can tell so only in the last piece (a full queue, a timeout of its own): the HTTP status is 200
    by then, and the client counts such a request as a success.
    """
    reason = meta.get("finish_reason")
    if not isinstance(reason, dict) or reason.get("type") != "abort":
        return ""
    return f"aborted by the server: {reason.get('status_code') or ''} {reason.get('message') or 'no reason'}"[:500]


def _module() -> Any:
    spec = importlib.util.find_spec("sglang")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "bench_serving.py"
        if path.exists() and "async_request_sglang_generate" in path.read_text(encoding="utf-8"):
            # by its path: the package itself wants the whole server environment
            own = importlib.util.spec_from_file_location("sglang_bench_serving", path)
            if own and own.loader:
                module = importlib.util.module_from_spec(own)
                sys.modules[own.name] = module
                own.loader.exec_module(module)
                return module
    return importlib.import_module("sglang.benchmark.serving")


def load() -> Any:
    """The client module, ready for `request`. Takes seconds: datasets and transformers come with it."""
    module = _module()
    args = Args(
        backend="sglang",
        dataset_name="custom",
        disable_ignore_eos=False,
        disable_stream=False,
        return_logprob=False,
        return_routed_experts=False,
        logprob_start_len=-1,
        top_logprobs_num=0,
        temperature=0.0,
        top_p=1.0,
        header=None,
    )
    module.args = args
    if hasattr(module, "set_global_args"):
        module.set_global_args(args)
    made = module.RequestFuncOutput.init_new

    def noticed(request: Any) -> Any:
        out = made(request)
        if (seen := CURRENT.get(None)) is not None:
            seen["out"] = out
        return out

    module.RequestFuncOutput.init_new = staticmethod(noticed)
    name = "orjson" if hasattr(module, "orjson") else "json"
    setattr(module, name, NotingJson(getattr(module, name, json)))
    return module


def make_input(
    module: Any,
    *,
    url: str,
    prompt: str,
    prompt_tokens: int,
    output_tokens: int,
    temperature: float,
    top_p: float = 1.0,
    rank: int | None = None,
) -> Any:
    """A request of exact output length; special tokens are kept as text, so that no token passes unseen.

    With `rank` it goes to that data-parallel replica, whatever the server's own balancing would do: by the name that
    SGLang 0.5.23 has for it, and by the one that earlier releases have.
    """
    to = {} if rank is None else {"routed_dp_rank": rank, "data_parallel_rank": rank}
    sampling = {
        "temperature": temperature,
        **({} if top_p == 1.0 else {"top_p": top_p}),
        "max_new_tokens": output_tokens,
        "ignore_eos": True,
        "skip_special_tokens": False,
    }
    return module.RequestFuncInput(
        prompt=prompt,
        api_url=url + "/generate",
        prompt_len=prompt_tokens,
        output_len=output_tokens,
        model="",
        lora_name=None,
        image_data=None,
        extra_request_body={"sampling_params": sampling, **to},
    )


class Asks:
    """The requests of one plan, built of its cutter's text (`prompts.py`)."""

    def __init__(self, module: Any, cutter: Any, plan: dict[str, Any]) -> None:
        self.module, self.cutter, self.plan = module, cutter, plan
        self.heads = [cutter.head(place, plan["prefix_tokens"]) for place in plan["prefixes"]]

    def build(self, prefix: int, place: int, rank: int | None = None) -> Any:
        """The request of a prefix and a place in the corpus; with `rank` to that replica, or to that server itself."""
        plan = self.plan
        text, tokens = self.cutter.exact(self.heads[prefix], place, plan["input_tokens"])
        workers = plan.get("workers") or ()
        if rank is None or not workers:
            return self._input(text, tokens, plan["output_tokens"], rank)
        return self._input(text, tokens, plan["output_tokens"], url=workers[rank])

    def offered(self) -> Iterator[tuple[float, Any]]:
        """All requests with their send times, built as they are asked for; a trace's clients begin it again."""
        plan = self.plan
        for at, prefix, place in plan["requests"]:
            yield at, self.build(prefix, place)
        calls = plan.get("calls", ())
        for at, tokens, output, places in itertools.cycle(calls) if plan["concurrency"] else calls:
            text, got = self.cutter.joined(places, plan["block_tokens"], tokens)
            yield at, self._input(text, got, output)

    def _input(self, text: str, tokens: int, output_tokens: int, rank: int | None = None, url: str = "") -> Any:
        plan = self.plan
        return make_input(
            self.module,
            url=url or plan["base_url"],
            prompt=text,
            prompt_tokens=tokens,
            output_tokens=output_tokens,
            temperature=plan["temperature"],
            top_p=plan.get("top_p", 1.0),
            rank=rank,
        )
