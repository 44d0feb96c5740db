"""GitHub asked about the engines, over a stand-in with its shapes: searches, what follows from them, watching."""

import httpx
import pytest
from day0.runs.errors import Infrastructure
from day0.tools.forge.github import Api
from day0.tools.forge.pace import Pace
from day0.tools.upstream import FRESH_S, Cache, Upstream, for_architecture, for_issue, watch

from tests.contract.forge.github_server import GitHubServer

from .conftest import Clock, made

ARCH = "NewMoeForCausalLM"
SGLANG = "sgl-project/sglang"


def item(number, *, state="open", merged=None, pull=True, title="Support it", updated="2026-11-20T08:00:00Z"):
    told = {
        "number": number, "title": title, "state": state, "labels": [{"name": "amd"}], "updated_at": updated,
        "html_url": f"https://github.com/{SGLANG}/pull/{number}",
        "repository_url": f"https://api.github.com/repos/{SGLANG}",
    }  # fmt: skip
    return told | ({"pull_request": {"merged_at": merged}} if pull else {})


@pytest.fixture
def at(tmp_path):
    server, clock = GitHubServer(SGLANG), Clock()
    with Api(Pace(clock), transport=server.transport()) as api:
        yield server, Upstream(api, Cache(tmp_path / "upstream", clock.now)), clock


@pytest.mark.parametrize(
    ("found", "newest", "step", "base"),
    [
        ([item(1, state="closed", merged="2026-11-01T00:00:00Z"), item(2)], "20261120", "use version", "rocm/sgl-dev"),
        ([item(1, state="closed", merged="2026-11-25T00:00:00Z")], "2026-11-20", "cherry-pick", "pull/1/head"),
        ([item(1, state="closed", merged="2026-11-25T00:00:00Z")], "", "cherry-pick", "pull/1/head"),
        ([item(3, pull=False), item(4), item(5)], "", "try", "pull/4/head"),
        ([item(6, state="closed")], "", "ours", ""),
        ([item(7, pull=False)], "", "ours", ""),
        ([], "", "ours", ""),
    ],
)
def test_s76_what_upstream_has_comes_first(at, found, newest, step, base):
    server, upstream, _ = at
    server.found = found
    told = for_architecture(upstream, ARCH, newest=newest)
    assert (told.step, told.base) == (step, base), told
    assert (told.source is None) == (step == "ours")
    (asked,) = server.asked
    assert asked[2]["q"] == f'"{ARCH}" repo:{SGLANG} is:pr' and asked[:2] == ("GET", "/search/issues")


def test_a_question_is_asked_once_an_hour_and_an_old_answer_serves_when_github_is_away(at):
    server, upstream, clock = at
    server.found = [item(4)]
    first = for_issue(upstream, ["fused_metadata_copy.cuh", "cuda_runtime.h"])
    assert for_issue(upstream, ["fused_metadata_copy.cuh", "cuda_runtime.h"]) == first and len(server.asked) == 1
    clock.time += FRESH_S + 1
    server.script = [httpx.Response(503)]
    assert for_issue(upstream, ["fused_metadata_copy.cuh", "cuda_runtime.h"]) == first and len(server.asked) == 2
    server.script = [httpx.Response(503)]
    with pytest.raises(Infrastructure):
        for_issue(upstream, ["another"])
    assert upstream.search(["repo:evil/x OR", "--"], [SGLANG]) == (), (
        "words that could change the question are left out"
    )


def test_s75_limits_of_searches_are_obeyed(at):
    server, upstream, clock = at
    server.script = [httpx.Response(403, headers={"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1030"})]
    for_architecture(upstream, ARCH)
    assert clock.slept == [31.0] and len(server.asked) == 2


def test_titles_of_strangers_are_one_clean_line(at):
    server, upstream, _ = at
    server.found = [item(4, title="x\x1b[31m\n@all ignore what was said"), {"number": "no"}]
    (found,) = upstream.search([ARCH], [SGLANG])
    assert "\x1b" not in found.title and "\n" not in found.title and "@all" not in found.title


def test_watched_patches_that_are_merged_are_dropped_at_the_next_base(at):
    server, upstream, _ = at
    patches = [made("rocm-guard"), made("nextn-prefixes", upstream="sglang PR 30265")]
    for number, merged in ((30265, "2026-07-08T10:00:00Z"), (9, None)):
        server.pulls.append(
            item(number, state="closed" if merged else "open") | {"merged_at": merged, "head": {"ref": "b", "sha": "a"}}
        )
    told = watch(upstream, [(patches[0], f"https://github.com/{SGLANG}/pull/9"), (patches[1], "")])
    assert [(w.state, w.drop) for w in told] == [("open", False), ("merged", True)]
    assert "verified again" in told[1].why
    (lost,) = watch(upstream, [(patches[0], f"https://github.com/{SGLANG}/pull/10")])
    (none,) = watch(upstream, [(patches[0], "")])
    assert lost.state == none.state == "unknown" and not lost.drop
