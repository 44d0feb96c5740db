"""Recipes: for people and machines, the same bytes for the same content, nothing lost on the way."""

import re

import pytest
from day0.runs.accuracy import Canary, Judgement
from day0.runs.candidate import Candidate
from day0.runs.canonical import canonical_recipe
from day0.runs.documents import target, workload
from day0.runs.engine_facts import NodeFacts
from day0.runs.errors import UserError
from day0.runs.recipe import (
    Accuracy,
    Configuration,
    EnginePin,
    Figure,
    Gain,
    LaunchLine,
    ModelPin,
    Provenance,
    Recipe,
    Step,
    parse,
    render,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

NEEDLE = Canary(name="long context", state="passed")
SUMS = Judgement(
    task="sums", tier=2, against="same-stack", verdict="inconclusive", margin=0.01, items=200, reference=1.0,
    measured=0.995, difference=-0.005, lower=-0.02, disagreement=0.005, needed=310, decidable=0.0125,
)  # fmt: skip


def recipe(**change):
    given = {
        "replay": "day0 replay recipe-r12345678-1-cpu-chat.yaml",
        "engine": EnginePin(name="sglang", build="sha256:ab", version="0.5.23", packages={"torch": "2.13.0"}),
        "model": ModelPin(id="/home/me/tiny", revision="sha256:cd", files={"model.safetensors": "sha256:ef"}),
        "configuration": Configuration(flags={"max-running-requests": 16, "enable-x": True}, env={"OMP": "1"}),
        "launch": LaunchLine(argv=("python", "-m", "sglang.launch_server", "--port", "{port}", "a b"), env={}),
        "figures": (
            Figure(name="goodput", unit="tok/s", value=123.456, low=110, high=140, label="short"),
            Figure(name="knee", unit="requests/s", value=2.5, low=2.0, label="short"),
        ),
        "gain": Gain(baseline="SGLang's defaults", gain=0.38, lower=0.31, upper=0.45, pairs=4, method="t"),
        "accuracy": Accuracy(label="inconclusive", reference="same-stack", tasks=(SUMS,), canaries=(NEEDLE,)),
        "waterfall": (
            Step(
                attempt="r12345678-1.3",
                change={"--dtype": (None, "float32"), "patches": ((), ("sha256:aa",)), "--tp-size": (1, 2)},
                goodput_tok_s=100.0,
                gain=0.2,
                hypothesis="less work",
            ),
        ),
        "workload": workload("cpu-chat"),
        "target": target("cpu"),
        "node": NodeFacts(name="here", cores=2),
        "provenance": Provenance(run="r12345678-1", attempt="r12345678-1.3", day0="0.1.0"),
    }
    return Recipe(**(given | change))


def test_it_comes_back_as_it_was():
    text = render(recipe())
    assert parse(text) == recipe()
    assert render(parse(text)) == text


def test_equal_recipes_are_equal_bytes_whatever_the_order_of_their_keys():
    shuffled = Configuration(flags={"enable-x": True, "max-running-requests": 16}, env={"OMP": "1"})
    assert render(recipe(configuration=shuffled)) == render(recipe())


def test_the_head_tells_people_what_it_is():
    head = render(recipe()).partition("schema:")[0]
    assert all(line.startswith("#") for line in head.splitlines())
    for told in (
        "/home/me/tiny on cpu, workload cpu-chat",
        "goodput: 123.5 tok/s (110 to 140) [short]",
        "knee: 2.5 requests/s (2 to -) [short]",
        "+38.0% over SGLang's defaults (at least +31.0% with 95 % confidence, 4 pairs of boots; verdict: better)",
        "again:   day0 replay recipe-r12345678-1-cpu-chat.yaml",
        "by hand: python -m sglang.launch_server --port {port} 'a b'",
    ):
        assert told in head
    assert "these are the defaults" in render(recipe(gain=None))


def test_it_pins_the_candidate():
    flags = {"max-running-requests": 16, "enable-x": True}
    assert parse(render(recipe())).candidate() == Candidate(
        engine="sglang", build="sha256:ab", model="/home/me/tiny", revision="sha256:cd", flags=flags, env={"OMP": "1"}
    )


def test_a_figure_holds_within_its_range():
    figure = recipe().figure("goodput")
    assert [figure.holds(value) for value in (109.9, 110, 140, 140.1)] == [False, True, True, False]
    assert recipe().figure("knee").holds(1e9)
    assert recipe().figure("nothing") is None


def test_two_figures_of_one_name_are_refused():
    twice = (Figure(name="a", unit="s", value=1), Figure(name="a", unit="s", value=2))
    with pytest.raises(ValidationError, match="same name"):
        recipe(figures=twice)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "  build: sha256:ab",
            "  built: sha256:ab",
            r"unknown key `built`; allowed here: name, build, version",
        ),
        ("gain: 0.38", "gain: a lot", r"`gain.gain`: .*number, not \"a lot\""),
        (
            "    low: 110.0",
            "    lower: 110.0",
            r"unknown key `lower`; allowed here: name, unit, value, low",
        ),
        ("recipe/v1", "recipe/v7", r"schema `day0/recipe/v7` is not one"),
    ],
)
def test_what_someone_broke_is_named_with_its_line(old, new, message):
    text = render(recipe())
    assert text.count(old) == 1
    line = text[: text.index(old)].count("\n") + 1
    with pytest.raises(UserError) as caught:
        parse(text.replace(old, new), name="mine.yaml")
    assert re.match(rf"mine.yaml:{line}: {message}", str(caught.value)), str(caught.value)


def test_names_from_outside_end_no_comment():
    text = render(recipe(model=ModelPin(id="a\nschema: x\r\x85\u2028b", revision="r")))
    assert parse(text).model.id == "a\nschema: x\r\x85\u2028b"
    assert text.count("\nschema:") == 1


WORDS = st.text(max_size=20)
FLAGS = st.dictionaries(WORDS, st.booleans() | st.integers() | WORDS | st.floats(allow_nan=False, allow_infinity=False))


@settings(max_examples=25, deadline=None)  # a recipe takes PyYAML 30 ms
@given(flags=FLAGS, argv=st.lists(WORDS, max_size=4), note=WORDS)
def test_any_flag_survives(flags, argv, note):
    made = recipe(
        configuration=Configuration(flags=flags),
        launch=LaunchLine(argv=tuple(argv)),
        accuracy=Accuracy(label="no collapse", reference=note),
    )
    try:
        text = render(made)
    except UserError as error:
        assert "character" in str(error) or "digits" in str(error)
    else:
        assert parse(text).configuration.canonical() == made.configuration.canonical()


def test_the_canonical_form_leaves_out_what_differs_between_equal_runs():
    other = recipe(
        engine=EnginePin(name="sglang", build="sha256:zz", version="0.5.24", packages={"torch": "2.14.0"}),
        model=ModelPin(id="/srv/elsewhere/tiny", revision="sha256:cd", files={"model.safetensors": "sha256:ef"}),
        node=NodeFacts(name="there", cores=2, disk_free_bytes=1, kernel="6.1"),
        provenance=Provenance(run="r12345678-1", attempt="r12345678-1.3", day0="0.2.0"),
    )
    assert canonical_recipe(render(other)) == canonical_recipe(render(recipe()))
    slower = recipe(figures=(Figure(name="goodput", unit="tok/s", value=100),))
    assert canonical_recipe(render(slower)) != canonical_recipe(render(recipe()))


# One recipe as day0 0.1.0 wrote it: it must be read for ever.
V1 = """\
schema: day0/recipe/v1
replay: day0 replay r.yaml
engine: {name: sglang, build: sha256:ab, version: 0.5.23}
model: {id: tiny, revision: sha256:cd}
configuration: {flags: {dtype: float32}}
launch: {argv: [python, -m, sglang.launch_server]}
figures: [{name: goodput, unit: tok/s, value: 100.0, low: 90.0, high: 110.0, label: short}]
workload: {name: chat, input_tokens: 320, output_tokens: 48}
target:
  name: cpu
  kind: local
  accelerator: cpu
  stall_s: 20.0
  boot_stall_s: 20.0
  boot_cap_s: 240.0
  measure: {point_s: 8.0, min_requests: 8, p95_multiples: 0.0, max_points: 5, max_pairs: 4, stability_s: 0.0}
  workload: chat
node: {name: here}
provenance: {run: r1-1, attempt: r1-1.2, day0: 0.1.0}
"""


def test_version_one_is_read():
    found = parse(V1)
    assert (found.configuration.flags["dtype"], found.figures[0].high, found.gain) == ("float32", 110, None)
