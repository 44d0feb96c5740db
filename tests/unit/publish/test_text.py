"""The words under which patches and patched recipes leave."""

from day0.runs.recipe import Configuration, parse, render
from day0.tools import publish_folder, publish_text
from day0.tools.publish import Sent

from tests.unit.runs.test_recipe import recipe

from .conftest import EVIDENCE, WHO, made

PATCHES = (made("nextn-prefixes", upstream="sglang PR 30265"), made("rocm-guard"))


def patched():
    digests = tuple(p.digest() for p in PATCHES)
    waiver = publish_text.waiver(PATCHES, pulls=(), model="org/model")
    return recipe(configuration=Configuration(patches=digests), patches=PATCHES, patched=True, waiver=waiver)


def test_s77_a_recipe_that_depends_on_patches_says_so_and_carries_its_waiver():
    text = render(patched())
    again = parse(text)
    assert again == patched() and again.patched and "\npatched: true\n" in text
    assert "# patched: depends on 2 changes to the engine's source" in text.partition("schema:")[0]
    for patch in PATCHES:
        assert patch.digest() in again.waiver and all(path in again.waiver for path in patch.after)
    for asked in ("What is patched", "Why the image can't run this", "Upstream", "Removal"):
        assert again.waiver.count(f"- {asked}") == 2
    plain = render(recipe())
    assert "\npatched: false\n" in plain and "depends on" not in plain.partition("schema:")[0]


def test_s77_cookbook_and_waiver_follow_the_engines_pull_requests_in_their_order(tmp_path):
    sent = [
        Sent(patch=p.digest(), name=p.name, status="opened", pull=n, url=f"https://forge/pull/{n}")
        for n, p in enumerate(PATCHES, 7)
    ]
    files = publish_folder.after(tmp_path, [("r1-chat", patched()), ("r1-plain", recipe())], sent)
    assert [f.name for f in files] == ["2-cookbook-r1-chat.md", "3-waiver-r1-chat.md"]
    cookbook, waiver = (f.read_text() for f in files)
    assert "https://forge/pull/7" in cookbook and "comes after the engine's pull requests" in cookbook
    assert "Upstream: https://forge/pull/8" in waiver and "of the same kind: sglang PR 30265" in waiver
    (unsent,) = [f for f in publish_folder.after(tmp_path, [("r2", patched())], []) if "waiver" in f.name]
    assert "not opened yet" in unsent.read_text()


def test_a_text_is_known_as_ours_until_somebody_changes_it():
    draft = publish_text.draft(PATCHES[1], (EVIDENCE,), base="main", who=WHO, exact=True, redact=str)
    assert publish_text.ours(draft.body) == (PATCHES[1].digest(), True)
    assert publish_text.ours(draft.body.replace("Evidence", "Proof")) == (PATCHES[1].digest(), False)
    assert publish_text.ours(draft.body + "\nThanks!") == (PATCHES[1].digest(), False)
    assert publish_text.ours("something else") is None
    assert "- `python/sglang/jit_kernel/" in draft.body, "as the repository names its files"


def test_a_cited_pull_request_is_understood():
    assert publish_text.cited("sglang PR 30265") == ("sgl-project/sglang", 30265)
    assert publish_text.cited("aiter#3911") == ("ROCm/aiter", 3911)
    assert publish_text.cited("vllm PR 1") is None and publish_text.cited("") is None


def test_the_engine_of_a_patch_is_where_its_files_are():
    assert publish_text.engine_of(PATCHES[0]) == ("sglang", 1)
    root = PATCHES[0].model_copy(update={"after": {"python/sglang/srt/x.py": "sha256:0"}})
    assert publish_text.engine_of(root) == ("sglang", 0)
