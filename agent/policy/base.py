"""The port of a policy: a frozen view of the run in, a frozen proposal out. No I/O but the LLM port."""

from __future__ import annotations

from typing import Protocol

from day0.agent.policy.actions import Action
from day0.runs.engine_facts import BootFacts, EngineFacts, ModelFacts, NodeFacts
from day0.runs.errors import Infrastructure
from day0.runs.gained import Taught
from day0.runs.patches import Patch, Table
from day0.runs.schema import Attempt, RunRequest
from day0.runs.values import Frozen, Map
from day0.tools.known import KnownIssue
from pydantic import Field


class Answer(Frozen):
    """What came of a question (`read_log`) or why an action was refused; untrusted text in `text`."""

    round: int
    action: Action
    refused: bool
    text: str


class Usage(Frozen):
    """Tokens and USD that a proposal cost."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0


class RunView(Frozen):
    """Everything a policy may know, rebuilt from the ledger each round."""

    run: str
    round: int
    request: RunRequest
    model: ModelFacts
    node: NodeFacts
    engine: EngineFacts
    attempts: tuple[Attempt, ...]
    baseline: str | None = Field(description="attempt ID of the engine's defaults; None before it ran")
    leader: str | None = Field(description="attempt ID of the best kept candidate so far")
    noise: float = Field(description="relative s.d. of a knee between boots of one configuration")
    budget_left_s: float = Field(description="node seconds left for search; the closing time is already reserved")
    attempts_left: int
    answers: tuple[Answer, ...] = ()
    boots: Map[BootFacts] = Field(default_factory=dict, description="attempt ID -> what its last boot resolved to")

    patches: Map[Patch] = Field(default_factory=dict, description="digest -> patch made in this run")
    tables: Map[Table] = Field(default_factory=dict, description="digest -> table of tuned kernels made in this run")
    learned: tuple[KnownIssue, ...] = Field(default=(), description="failures that runs on this build saw before")
    experience: tuple[Taught, ...] = Field(default=(), description="what other runs on this build measured")
    images: Map[str] = Field(default_factory=dict, description="digest -> name of further engine images of these nodes")

    def attempt(self, attempt_id: str) -> Attempt | None:
        """The attempt of that ID."""
        return next((a for a in self.attempts if a.id == attempt_id), None)


class Proposal(Frozen):
    """A batch of experiments, most promising first."""

    proposer: str = Field(description="playbook, llm, person, carried, stand-in, tpe, random, default")
    actions: tuple[Action, ...]
    note: str = Field(default="", description="e.g. why the playbook stood in for the LLM")
    usage: Usage = Usage()


class Policy(Protocol):
    """Proposes the next experiments. The same view and seed give the same proposal."""

    name: str

    def decide(self, view: RunView) -> Proposal: ...


class Message(Frozen):
    """One turn of a conversation with an LLM."""

    role: str
    content: str


class Asked(Frozen):
    """One call: messages, the action schemas as tools, and limits."""

    messages: tuple[Message, ...]
    tools: tuple[str, ...] = Field(default=(), description="names of allowed actions")
    max_tokens: int = 8192
    purpose: str = "plan"
    prompt: str = Field(default="", description="name of the system prompt's file, with its version")


class Told(Frozen):
    """One answer: free text and raw tool calls as (name, JSON arguments), not yet validated."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    usage: Usage = Usage()
    model: str = ""
    cut_off: bool = Field(default=False, description="it ran into the limit of tokens and is not whole")


class LLM(Protocol):
    """One call in, one answer with usage out. Raises `LLMDown` when the endpoint stays away after retries."""

    def ask(self, asked: Asked) -> Told: ...


class LLMDown(Infrastructure):
    """The endpoint is not usable now; the playbook takes the step. Never counted as "no improvement"."""
