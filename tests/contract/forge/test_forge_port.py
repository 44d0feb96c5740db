"""The forge port: one body over plain files beside a bare repository and over GitHub's REST API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from day0.runs.errors import Infrastructure, Refused, UserError
from day0.tools.forge.base import Draft, Forge
from day0.tools.forge.files import FileForge
from day0.tools.forge.github import Api, GitHub, clone_url
from day0.tools.forge.pace import LONGEST_S, Pace, asked_to_wait

from tests.contract.forge.github_server import GitHubServer

ASKED = Draft(title="A title", body="Text\nof it\n<!-- mark -->", branch="day0/x-1", base="main", labels=("amd",))
SHA = "a" * 40


class Clock:
    def __init__(self) -> None:
        self.time, self.slept = 5000.0, []

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


Made = tuple[Forge, Clock, Callable[[str, str], None]]


@pytest.fixture(params=["files", "github"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Made]:
    """The forge, its clock, and how a branch gets a commit."""
    clock = Clock()
    if request.param == "files":

        def push(branch: str, commit: str) -> None:
            ref = tmp_path / "refs" / "heads" / branch
            ref.parent.mkdir(parents=True, exist_ok=True)
            ref.write_text(f"{commit}\n")

        yield FileForge(tmp_path, Pace(clock)), clock, push
        return
    server = GitHubServer()
    with Api(Pace(clock), token="t" * 20, transport=server.transport()) as api:
        yield GitHub(api, "owner/name"), clock, server.heads.__setitem__


def test_a_draft_is_opened_once_and_reads_back_as_asked(made: Made) -> None:
    forge, _, push = made
    assert forge.pulls(ASKED.branch) == ()
    push(ASKED.branch, SHA)
    pull = forge.open(ASKED)
    assert (pull.title, pull.body, pull.branch, pull.base) == (ASKED.title, ASKED.body, ASKED.branch, "main")
    assert (pull.state, pull.draft, pull.commit, pull.labels) == ("open", True, SHA, ())
    assert forge.pull(pull.number) == pull and forge.pulls(ASKED.branch) == (pull,) and forge.pulls("other") == ()
    with pytest.raises(Refused, match="already"):
        forge.open(ASKED)


def test_text_and_labels_change_and_the_head_follows_its_branch(made: Made) -> None:
    forge, _, push = made
    push(ASKED.branch, SHA)
    number = forge.open(ASKED).number
    other = ASKED.model_copy(update={"title": "Another", "body": "b"})
    assert forge.rewrite(number, other).title == "Another" and forge.pull(number).body == "b"
    assert forge.label(number, ("amd",)) == ("amd",) and set(forge.label(number, ("day0", "amd"))) == {"amd", "day0"}
    push(ASKED.branch, "b" * 40)
    assert forge.pull(number).commit == "b" * 40 and forge.pull(number).labels == ("amd", "day0")


def test_a_branch_that_is_not_there_and_a_number_that_is_not_there(made: Made) -> None:
    forge, _, _ = made
    with pytest.raises(Refused):
        forge.open(ASKED)
    with pytest.raises(Infrastructure):
        forge.pull(4711)


def test_s75_writes_are_a_second_apart_and_reads_are_not_held_up(made: Made) -> None:
    forge, clock, push = made
    push(ASKED.branch, SHA)
    number = forge.open(ASKED).number
    forge.pull(number)
    assert clock.slept == []
    forge.label(number, ("amd",))
    clock.time += 0.4
    forge.rewrite(number, ASKED)
    assert clock.slept == [1.0, pytest.approx(0.6)]


def github(server: GitHubServer, clock: Clock, **named: str) -> GitHub:
    return GitHub(Api(Pace(clock), token="secret-token-of-mine", transport=server.transport()), "owner/name", **named)


def test_s75_retry_after_and_reset_are_obeyed() -> None:
    server, clock = GitHubServer(), Clock()
    server.heads[ASKED.branch] = SHA
    server.script = [
        httpx.Response(429, headers={"retry-after": "7"}),
        httpx.Response(403, headers={"x-ratelimit-remaining": "0", "x-ratelimit-reset": "5040"}),
        httpx.Response(403, json={"message": "You have exceeded a secondary rate limit."}),
    ]
    assert github(server, clock).open(ASKED).number == 101
    assert clock.slept == [7.0, 34.0, 60.0] and len(server.pulls) == 1
    server.script = [httpx.Response(429, headers={"retry-after": str(LONGEST_S + 1)})]
    with pytest.raises(Infrastructure, match="run it again later"):
        github(server, clock).pulls("x")
    server.script = [httpx.Response(429)] * 9
    with pytest.raises(Infrastructure, match="went on asking"):
        github(server, clock).pulls("x")
    assert asked_to_wait(403, {}, '{"message": "Resource not accessible"}', 0.0) is None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (httpx.Response(401, json={"message": "Bad credentials"}), "refuses the token"),
        (httpx.Response(404, json={}), "has no repository"),
        (httpx.Response(502), "HTTP 502"),
        (httpx.Response(200, text="<html>"), "no JSON"),
        (httpx.Response(200, json=[{"number": 1}]), "no pull request"),
    ],
)
def test_what_a_forge_answers_wrongly_is_infrastructure(answer: httpx.Response, said: str) -> None:
    server = GitHubServer()
    server.script = [answer]
    with pytest.raises(Infrastructure, match=said) as failed:
        github(server, Clock()).pulls("x")
    assert "secret-token-of-mine" not in str(failed.value)


def test_a_forge_out_of_reach_is_infrastructure_and_the_token_stays_out_of_the_message() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == "Bearer secret-token-of-mine"
        raise httpx.ConnectError("no", request=request)

    api = Api(Pace(Clock()), token="secret-token-of-mine", transport=httpx.MockTransport(refuse))
    with pytest.raises(Infrastructure, match="can't be reached") as failed:
        GitHub(api, "owner/name").pull(1)
    assert "secret-token-of-mine" not in str(failed.value)


def test_pull_requests_of_others_are_not_taken_for_ours() -> None:
    server, clock = GitHubServer(), Clock()
    server.heads[ASKED.branch] = SHA
    github(server, clock).open(ASKED)
    server.script = [httpx.Response(200, json=server.pulls)]
    assert github(server, clock).pulls("day0/y-2") == ()


def test_a_fork_pushes_to_itself_and_asks_the_other() -> None:
    server = GitHubServer()
    server.heads[ASKED.branch] = SHA
    github(server, Clock(), fork="me/name").open(ASKED)
    assert server.asked[-1][3]["head"] == f"me:{ASKED.branch}" and "head_repo" not in server.asked[-1][3]
    assert clone_url("me/name") == "https://github.com/me/name.git"
    assert clone_url("me/name", api="https://git.example/api/v3") == "https://git.example/me/name.git"
    with pytest.raises(UserError, match="owner/name"):
        github(server, Clock(), fork="me")


def test_closed_and_merged_are_told_apart() -> None:
    server, clock = GitHubServer(), Clock()
    server.heads[ASKED.branch] = SHA
    number = github(server, clock).open(ASKED).number
    for merged, state in ((None, "closed"), ("2026-12-01T10:00:00Z", "merged")):
        server.pulls[0].update(state="closed", merged_at=merged)
        assert github(server, clock).pull(number).state == state
