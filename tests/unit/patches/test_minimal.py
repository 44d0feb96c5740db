"""Delete-one minimisation, and an architecture served by its nearest relative."""

import pytest
from day0.runs.errors import Refused
from day0.tools import patch, patch_minimal, worktree
from day0.tools.codemods.base import Files

from .engine import TREE

PATH = "sglang/python/sglang/srt/models/x.py"
OTHER = "sglang/python/sglang/srt/models/y.cuh"
LINES = [f"x{n} = {n}\n" for n in range(60)]
TEXT = "".join(LINES)
KERNEL = "#pragma once\n" + "".join(f"// {n}\n" for n in range(20)) + "int x = 1;\n"
MODELS = "sglang/python/sglang/srt/models/"


def changed(*lines, kernel=None):
    after = {PATH: "".join(f"{LINES[n][:-1]}  # {lines[n]}\n" if n in lines else row for n, row in enumerate(LINES))}
    return after | ({OTHER: kernel} if kernel else {})


def difference(after):
    return worktree.difference({PATH: TEXT, OTHER: KERNEL}, after)


def test_hunks_are_taken_apart_and_put_together_to_the_byte():
    after = {PATH: TEXT.replace("x5 = 5\n", "").replace("x30 = 30\n", "x30 = 31\ny = 1\nz = 2\n") + "end = 1\n"}
    diff = difference(after)
    found = patch_minimal.hunks(diff)
    assert len(found) == 3
    for n in range(3):
        fewer = patch_minimal.joined(tuple(h for m, h in enumerate(found) if m != n))
        made = worktree.apply(fewer, {PATH: TEXT})[PATH]
        assert made not in (TEXT, after[PATH]) and patch_minimal.hunks(fewer) != found
    assert worktree.apply(patch_minimal.joined(found), {PATH: TEXT}) == after


def test_only_the_hunks_that_it_needs_are_left_and_each_is_asked_about_once():
    diff = difference(
        {PATH: TEXT.replace("x5 = 5", "x5 = 6").replace("x25 = 25", "x25 = 26").replace("x50 = 50", "x50 = 51")}
    )
    asked = []

    def works(fewer):
        asked.append(fewer)
        return "x25 = 26" in fewer

    small = patch_minimal.minimal(diff, works)
    assert len(asked) == 3 and len(patch_minimal.hunks(small)) == 1
    assert worktree.apply(small, {PATH: TEXT})[PATH] == TEXT.replace("x25 = 25", "x25 = 26")
    assert patch_minimal.minimal(diff, lambda _: False) == diff


def test_a_proposed_diff_goes_to_review_without_hunks_that_change_no_program():
    kernel = KERNEL.replace("// 3\n", "// three\n").replace("int x = 1;", "int x = 2;")
    after = {PATH: TEXT.replace("x5 = 5\n", "x5 = 5  # five\n").replace("x40 = 40", "x40 = 41"), OTHER: kernel}
    source = Files({PATH: TEXT, OTHER: KERNEL})
    mine = patch.from_diff(difference(after), source, build="b", name="p", title="t", why="")
    assert len(patch_minimal.hunks(mine.diff)) == 2 and "five" not in mine.diff and "three" not in mine.diff
    made = patch.applied((mine,), source)
    assert "x40 = 41" in made[PATH] and "int x = 2;" in made[OTHER]
    only = patch.from_diff(
        difference({PATH: TEXT.replace("x5 = 5\n", "x5 = 5  # five\n")}), source, build="b", name="p", title="t", why=""
    )
    assert "five" in only.diff, "the last hunk stays: a person says what it is worth"


def test_what_no_compiler_sees_is_the_same_program():
    assert patch.same_program("a.py", "x = 1  # a\n", "x = 1\n") and not patch.same_program("a.py", "x = 1", "x = 2")
    guarded = "#ifdef USE_ROCM\nint x;\n#endif\n"
    assert patch.same_program("a.cuh", "int y; // a\n", "int y;\n") and not patch.same_program("a.cuh", guarded, "")
    assert not patch.same_program("a.json", "{}", "{ }")


KNOWN = {
    f"{MODELS}glm5.py": (
        "class Glm5Attention:\n    def __init__(self, config):\n        self.a = config.rms_norm_eps\n"
        '        self.b = getattr(config, "rope_scaling", None)\n\n\n'
        "class Glm5ForCausalLM(object):\n    pass\n\n\nclass OtherForCausalLM(object):\n    pass\n\n\n"
        "EntryClass = [Glm5ForCausalLM, OtherForCausalLM]\n"
    ),
    f"{MODELS}llama.py": "class LlamaForCausalLM(object):\n    pass\n\n\nEntryClass = LlamaForCausalLM\n",
}


def alias(architecture, **config):
    config = {"architectures": [architecture], "rms_norm_eps": 1e-5, **config}
    return patch.made("architecture-alias", Files(KNOWN), build="b", config=config)


def test_an_unknown_architecture_is_served_by_its_nearest_relative():
    mine = alias("Glm5NextForCausalLM")
    (path,) = mine.after
    text = patch.applied((mine,), Files(KNOWN))[path]
    assert path == f"{MODELS}glm5.py" and "class Glm5NextForCausalLM(Glm5ForCausalLM):" in text
    names = {}
    exec(compile(text, path, "exec"), names)
    assert [c.__name__ for c in names["EntryClass"]] == ["Glm5ForCausalLM", "OtherForCausalLM", "Glm5NextForCausalLM"]
    assert issubclass(names["Glm5NextForCausalLM"], names["Glm5ForCausalLM"])
    assert "ValueError: Model architectures ['Glm5NextForCausalLM'] are not supported for now".find(mine.gone[0]) > 0
    lone = patch.applied((alias("Llama5ForCausalLM"),), Files(KNOWN))[f"{MODELS}llama.py"]
    assert "EntryClass = [LlamaForCausalLM, Llama5ForCausalLM]" in lone


@pytest.mark.parametrize(
    ("architecture", "change", "why"),
    [
        ("Glm5ForCausalLM", {}, "the engine knows Glm5ForCausalLM"),
        ("MambaForCausalLM", {}, "which is another model"),
        ("Glm5ForImages", {}, "of a kind that no class"),
        ("Glm5NextForCausalLM", {"rms_norm_eps": None}, ""),
    ],
)
def test_an_alias_that_can_not_serve_is_refused(architecture, change, why):
    if not why:
        config = {"architectures": [architecture]}
        with pytest.raises(Refused, match="reads rms_norm_eps"):
            patch.made("architecture-alias", Files(KNOWN), build="b", config=config)
        return
    with pytest.raises(Refused, match=why):
        alias(architecture, **change)


def test_a_source_without_models_is_refused():
    with pytest.raises(Refused, match="registers model classes"):
        patch.made("architecture-alias", Files(TREE), build="b", config={"architectures": ["XForCausalLM"]})
