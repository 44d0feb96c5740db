"""From approved patches to pull requests on a real bare repository, with people working in it meanwhile."""

import json
from pathlib import Path

import engine
import pytest
from day0.runs.errors import Infrastructure
from day0.sandboxes.redact import Redactor
from day0.tools import publish_text
from day0.tools.forge.files import FOLDER

from .conftest import WHO, made, order


def pulls(staging):
    return [json.loads(file.read_text()) for file in sorted((staging.folder / FOLDER).glob("*.json"))]


def change_pull(staging, **changes):
    (file,) = (staging.folder / FOLDER).glob("*.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_an_approved_patch_becomes_a_branch_and_a_draft_with_its_evidence(staging):
    mine, seen = made("rocm-guard"), []
    sent = staging.publish(order(mine), seen=seen)
    assert (sent.status, sent.pull, [p.commit for p in seen]) == ("opened", 1, [sent.commit])
    commit = staging.branches()[sent.branch]
    assert commit.hexsha == sent.commit and [p.hexsha for p in commit.parents] == [sent.base]
    assert commit.author.name == WHO.name and f"Signed-off-by: {WHO}" in commit.message
    assert f"Day0-Patch: {mine.digest()}" in commit.message
    text = (commit.tree / engine.METADATA.removeprefix("sglang/")).data_stream.read().decode()
    assert "#ifndef USE_ROCM" in text and list(commit.stats.files) == [engine.METADATA.removeprefix("sglang/")]
    (pull,) = pulls(staging)
    assert pull["draft"] and pull["base"] == "main" and pull["labels"] == list(publish_text.LABELS)
    assert "| `fails at boot: x` | `kept` |" in pull["body"] and "All figures are simulated" in pull["body"]
    assert "cuda_runtime.h" in pull["body"] and publish_text.ours(pull["body"]) == (mine.digest(), True)


def test_s71_again_changes_nothing_and_two_patches_are_two_pulls(staging):
    patches = [made("rocm-guard"), made("nextn-prefixes")]
    first = [staging.publish(order(p)) for p in patches]
    before = pulls(staging), {name: c.hexsha for name, c in staging.branches().items()}
    again = [staging.publish(order(p)) for p in patches]
    assert [s.status for s in first] == ["opened", "opened"] and [s.status for s in again] == ["unchanged"] * 2
    assert (pulls(staging), {name: c.hexsha for name, c in staging.branches().items()}) == before
    assert [s.pull for s in again] == [1, 2] and len(staging.branches()) == 3


def test_s71_what_was_pushed_before_a_crash_is_found_without_any_memory_of_it(staging):
    mine = order(made("rocm-guard"))
    with staging.opened() as (repository, forge):
        from day0.tools import publish

        steps = publish.publish(mine, repository, forge, who=WHO, base="main", redact=Redactor())
        pushed = next(steps)  # dies here: the branch is there, the pull request is not, nothing was recorded
    assert staging.branches()[pushed.branch].hexsha == pushed.commit and not pulls(staging)
    sent = staging.publish(mine)
    assert (sent.status, sent.commit) == ("opened", pushed.commit) and len(pulls(staging)) == 1


def test_s72_a_branch_that_a_person_pushed_to_is_left_alone(staging):
    mine = order(made("rocm-guard"))
    sent = staging.publish(mine)
    staging.on(sent.branch)
    theirs = staging.commit({"python/sglang/more.py": "x = 1\n"}, sent.branch)
    staging.on("main")
    staging.commit({"README.md": "newer\n"})
    again = staging.publish(mine.model_copy(update={"pushed": (sent.commit,)}))
    assert again.status == "hands_off" and "person pushed" in again.why and again.pull == 1
    assert staging.branches()[sent.branch].hexsha == theirs
    staging.bare.delete_head(sent.branch, force=True)
    gone = staging.publish(mine.model_copy(update={"pushed": (sent.commit,)}))
    assert gone.status == "hands_off" and sent.branch not in staging.branches()


def test_s72_what_a_person_closed_is_not_opened_again(staging):
    mine = order(made("rocm-guard"))
    sent = staging.publish(mine)
    staging.commit({"README.md": "newer\n"})
    for state in ("closed", "merged"):
        change_pull(staging, state=state)
        again = staging.publish(mine)
        assert again.status == state and len(pulls(staging)) == 1
        assert staging.branches()[sent.branch].hexsha == sent.commit


def test_s72_a_text_that_a_person_edited_stays(staging):
    mine = order(made("rocm-guard"))
    staging.publish(mine)
    body = pulls(staging)[0]["body"]
    change_pull(staging, body="Tested by me.\n" + body)
    staging.commit({"README.md": "newer\n"})
    again = staging.publish(mine)
    assert again.status == "regenerated" and "edited" in again.why
    assert pulls(staging)[0]["body"].startswith("Tested by me.")


def test_s73_on_a_base_that_moved_it_is_made_again_with_the_same_content(staging):
    mine = order(made("rocm-guard"))
    first = staging.publish(mine)
    path = engine.METADATA.removeprefix("sglang/")
    base = staging.commit({path: "// one more line above\n" + engine.KERNEL})
    sent = staging.publish(mine)
    commit = staging.branches()[sent.branch]
    assert sent.status == "regenerated" and sent.base == base and [p.hexsha for p in commit.parents] == [base]
    text = (commit.tree / path).data_stream.read().decode()
    assert text.startswith("// one more line above\n") and "#ifndef USE_ROCM" in text
    assert sent.pull == first.pull == 1 and "stand at other lines" in pulls(staging)[0]["body"]
    assert staging.publish(mine).status == "unchanged"


def test_s73_what_no_longer_applies_has_to_be_verified_again_first(staging):
    mine = order(made("rocm-guard"))
    staging.commit({engine.METADATA.removeprefix("sglang/"): engine.KERNEL.replace("cstddef", "cstdint")})
    sent = staging.publish(mine)
    assert sent.status == "stale" and "verify it again" in sent.why and sent.pull is None
    assert list(staging.branches()) == ["main"] and not pulls(staging)


def test_s76_a_base_that_has_the_fix_gets_no_pull_request(staging):
    mine = made("rocm-guard")
    from day0.tools import patch
    from day0.tools.codemods.base import Files

    fixed = patch.applied((mine,), Files(engine.TREE))
    staging.commit({path.removeprefix("sglang/"): text for path, text in fixed.items()})
    sent = staging.publish(order(mine))
    assert sent.status == "upstream" and not pulls(staging) and list(staging.branches()) == ["main"]


def test_s74_what_does_not_read_back_as_written_is_an_error(staging):
    mine = order(made("rocm-guard"))
    with staging.opened() as (repository, forge):
        from day0.tools import publish

        real = forge.pull
        forge.pull = lambda number: real(number).model_copy(update={"title": "another"})
        steps = publish.publish(mine, repository, forge, who=WHO, base="main", redact=Redactor())
        with pytest.raises(Infrastructure, match="title reads back as 'another'"):
            list(steps)
        forge.pull = real
        tip = repository.tip
        repository.tip = lambda branch: None
        with pytest.raises(Infrastructure, match="reads back as nothing"):
            repository.push(
                "other", repository.commit(mine.patch, repository.base(), "m", WHO, mine.at), instead_of=None
            )
        repository.tip = tip


def test_s75_writes_are_a_second_apart(staging):
    with staging.opened() as (repository, forge):
        from day0.tools import publish

        for name in ("rocm-guard", "nextn-prefixes"):
            list(publish.publish(order(made(name)), repository, forge, who=WHO, base="main", redact=Redactor()))
    assert staging.clock.slept == [1.0] * 5, "push, pull request, labels, and again"


@pytest.mark.parametrize("approved", ["", "sha256:" + "0" * 64])
def test_s78_only_what_was_approved_leaves(staging, approved):
    mine = order(made("rocm-guard")).model_copy(update={"approved": approved})
    assert staging.publish(mine).status == "refused" and list(staging.branches()) == ["main"]
    other = order(made("rocm-guard"))
    changed = other.patch.model_copy(update={"diff": other.patch.diff.replace("USE_ROCM", "USE_HIP")})
    sent = staging.publish(other.model_copy(update={"patch": changed}))
    assert sent.status == "refused" and "not the content that was approved" in sent.why


@pytest.mark.parametrize("secret", ["ghp_" + "a1B2" * 9, "hunter2-of-mine"])
def test_s59_a_secret_in_a_diff_stops_it_and_in_words_is_masked(staging, secret):
    redact = Redactor(["hunter2-of-mine"])
    base = made("rocm-guard")
    bad = base.model_copy(
        update={"diff": base.diff.replace("+#else", f"+// {secret}\n+#else").replace(",11 @@", ",12 @@")}
    )
    assert staging.publish(order(bad), redact=redact).status == "refused"
    told = base.model_copy(update={"why": f"token={secret}\nx", "title": f"Guard {secret}"})
    sent = staging.publish(order(told), redact=redact)
    assert sent.status == "opened"
    everything = json.dumps(pulls(staging)) + staging.branches()[sent.branch].message
    assert secret not in everything and "[redacted]" in everything


def test_code_about_tokens_is_no_secret(staging):
    path = "sglang/python/sglang/srt/models/nextn_weights.py"
    from day0.tools import patch
    from day0.tools.codemods.base import Files

    rows = [" " + row for row in engine.MAPPER.splitlines()[:4]]
    rows[1:1] = ["+next_token = draft_token", "+num_tokens = max(0, 1)"]
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,4 +1,6 @@\n"
    diff = head + "\n".join(rows) + "\n"
    mine = patch.from_diff(diff, Files(engine.TREE), build="b", name="proposed-1", title="A proposal", why="")
    assert staging.publish(order(mine)).status == "opened"


def test_words_of_strangers_mention_nobody_and_close_nothing(staging):
    mine = made("rocm-guard").model_copy(
        update={"title": "Guard @everyone, fixes #12", "why": "x\n```\n<!-- day0 patch --> @someone\x1b[31m"}
    )
    sent = staging.publish(order(mine))
    (pull,) = pulls(staging)
    told = staging.branches()[sent.branch].message + pull["title"] + pull["body"].split("```", 1)[0]
    assert "@everyone" not in told and "#12" not in told and "fixes no" not in told.lower().replace("fixes- ", "")
    assert "````text" in pull["body"], "the fence is longer than any in the text"
    assert "\x1b" not in pull["body"]


def test_a_patch_of_two_engines_is_refused(staging):
    mine = made("rocm-guard")
    both = mine.model_copy(update={"after": {**mine.after, "aiter/aiter/x.py": "sha256:0"}})
    assert staging.publish(order(both)).status == "refused"


def test_a_base_that_is_not_there_is_an_infrastructure_error(staging):
    staging.bare.git.branch("-m", "main", "trunk")
    with pytest.raises(Infrastructure, match="git fetch failed"):
        staging.publish(order(made("rocm-guard")))
    assert not Path(staging.folder / FOLDER).exists()
