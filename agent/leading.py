"""The LLM that the settings name, as the policy that leads a run, and what it may ask the outside world."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from day0.agent.settings import Settings

if TYPE_CHECKING:
    from day0.agent.policy.base import Policy
    from day0.agent.policy.guard import Check


def llm_policy(
    settings: Settings,
    check: Check,
    *,
    batch: int = 1,
    keep: Callable[[dict[str, Any]], None] | None = None,
    earlier: Iterable[Mapping[str, Any]] = (),
    prompt: str = "",
) -> Policy:
    """The LLM that the settings name as the policy; `prompt` is a shipped prompt's name, default: the newest."""
    from day0.agent import prompts
    from day0.agent.llm import Endpoint, OpenAILLM, spent_of
    from day0.agent.policy.llm_policy import LLMPolicy
    from day0.sandboxes.redact import Redactor

    key = settings.llm_api_key.get_secret_value() if settings.llm_api_key else ""
    endpoint = Endpoint(
        settings.llm_base_url or "",
        settings.llm_model or "",
        key,
        usd_in=settings.llm_price[0],
        usd_out=settings.llm_price[1],
        usd_cap=settings.llm_budget_usd,
        calls_cap=settings.llm_max_calls,
        tokens_cap=settings.llm_max_tokens,
    )
    name = prompt or prompts.PLAN
    return LLMPolicy(
        OpenAILLM(endpoint, keep=keep, spent=spent_of(earlier)),
        prompts.load(name),
        version=name,
        critic=(prompts.CRITIC, prompts.load(prompts.CRITIC)),
        batch=batch,
        check=check,
        redact=Redactor(settings.secrets),
    )


def search_upstream(settings: Settings, engine: str, words: Sequence[str]) -> str:
    """What the engine's repository has about words, in lines, for a prompt; why it can't be asked where it can't."""
    from day0.agent.upstreaming import answered

    return answered(settings, engine, words)
