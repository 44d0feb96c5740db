"""Traces in Mooncake's format: what they say of their requests, and what is wrong with one, by its line."""

import json

import pytest
from day0.runs import trace
from day0.runs.documents import workload
from day0.runs.errors import Infrastructure, UserError
from hypothesis import given, settings
from hypothesis import strategies as st

LINES = [
    {"timestamp": 0, "input_length": 1100, "output_length": 10, "hash_ids": [0, 1, 2]},
    {"timestamp": 500, "input_length": 1500, "output_length": 30, "hash_ids": [0, 1, 3]},
    {"timestamp": 500, "input_length": 100, "output_length": 20, "hash_ids": [4]},
    {"timestamp": 3000, "input_length": 1100, "output_length": 40, "hash_ids": [0, 1, 2]},
]


def written(folder, lines=LINES, name="t.jsonl"):
    file = folder / name
    file.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return file


def document(folder, more="", text=""):
    file = folder / "w.yaml"
    file.write_text(f"schema: day0/workload/v1\nname: w\narrival: trace\ntrace: t.jsonl\n{more}{text}")
    return file


def test_lengths_gaps_and_sharing_come_from_the_file(tmp_path):
    found, digest = trace.read(written(tmp_path))
    assert [c.input_tokens for c in found.calls] == [1100, 1500, 100, 1100] and digest.startswith("sha256:")
    assert [c.gap_s for c in found.calls] == [1.0, 0.5, 0.0, 2.5], "the ring closes with the mean"
    assert trace.shared(found.calls) == [0, 1024, 0, 1099], "a repeated prompt still computes its last token"
    assert found.workload() == {
        "input_tokens": 950, "output_tokens": 25, "cached_share": round(2123 / 3800, 4), "prefixes": 2,
        "longest_tokens": 1530,
    }  # fmt: skip


def test_another_round_shares_nothing_with_the_one_before(tmp_path):
    found, _ = trace.read(written(tmp_path))
    twice = found.part(2, 8)
    assert [c.input_tokens for c in twice] == [100, 1100, 1100, 1500, 100, 1100, 1100, 1500]
    first, later = ({b for c in part for b in c.blocks} for part in (twice[:2], twice[2:6]))
    assert not first & later
    assert found.part(0, 4) == found.calls


@given(st.lists(st.tuples(st.integers(1, 5000), st.lists(st.integers(0, 5), max_size=12)), min_size=1, max_size=30))
@settings(max_examples=100, deadline=None)
def test_what_is_shared_is_never_more_than_there_is(prompts):
    calls = [
        trace.Call(gap_s=1.0, input_tokens=size, output_tokens=1, blocks=tuple(ids)[: -(-size // trace.BLOCK)])
        for size, ids in prompts
    ]
    found = trace.shared(calls)
    assert all(0 <= tokens < call.input_tokens for tokens, call in zip(found, calls, strict=True))
    assert found[0] == 0 or len(set(calls[0].blocks)) < len(calls[0].blocks)


BAD = [
    ("{", "not a JSON object"),
    ("[1]", "not a JSON object"),
    ({"timestamp": 1, "input_length": 5}, "`output_length` is missing"),
    (LINES[1] | {"timestamp": "now"}, '`timestamp` is not a number of milliseconds: "now"'),
    (LINES[1] | {"timestamp": float("nan")}, "`timestamp` is not a number of milliseconds"),
    (LINES[1] | {"timestamp": -1}, "`timestamp` is not a number of milliseconds: -1"),
    (LINES[1] | {"input_length": 0}, "`input_length` is not a number of tokens from 1 on: 0"),
    (LINES[1] | {"output_length": 1.5}, "`output_length` is not a number of tokens from 1 on: 1.5"),
    (LINES[1] | {"hash_ids": [1]}, "`hash_ids` has 1 blocks, 1500 tokens are 3 of 512"),
    (LINES[1] | {"hash_ids": [1, "a", 2]}, "`hash_ids` is not a list of numbers"),
    (LINES[1] | {"text": 3}, "`text` is not text"),
]


@pytest.mark.parametrize(("line", "why"), BAD, ids=range(len(BAD)))
def test_a_malformed_trace_names_its_line(tmp_path, line, why):
    file = written(tmp_path, [LINES[0], line])
    with pytest.raises(UserError) as caught:
        trace.read(file)
    assert str(caught.value).startswith(f"{file}:2: ") and why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_trace_goes_forward_and_takes_time(tmp_path):
    with pytest.raises(UserError, match=r"t.jsonl:3: `timestamp` 0 is earlier than that of the request before, 500"):
        trace.read(written(tmp_path, [LINES[0], LINES[1], LINES[0]]))
    for lines in ([LINES[0]], [LINES[0], LINES[0]], []):
        with pytest.raises(UserError, match="two requests at different times"):
            trace.read(written(tmp_path, lines))


def test_a_workload_is_completed_from_its_trace_and_pinned_to_it(tmp_path, monkeypatch):
    file = written(tmp_path)
    found = workload(str(document(tmp_path, "slo:\n  ttft_ms: 900\n")))
    assert (found.input_tokens, found.context_tokens, found.clients) == (950, 1530, None)
    assert trace.of(found).calls == trace.read(file)[0].calls
    assert trace.of(found.model_copy(update={"trace": "", "arrival": "poisson"})) is None
    moved = found.model_copy(update={"trace": "/gone/t.jsonl"})
    monkeypatch.chdir(tmp_path)
    assert trace.of(moved) == trace.of(found), "found by its name where day0 is run"
    trace.pinned.cache_clear()
    written(tmp_path, LINES[:3])
    with pytest.raises(Infrastructure, match=r"t.jsonl .* has changed"):
        trace.of(found)
    file.unlink()
    with pytest.raises(Infrastructure, match="is not there"):
        trace.of(found)


def test_what_a_workload_says_wrongly_of_its_trace_has_a_line(tmp_path):
    written(tmp_path)
    for more, message in (
        ("input_tokens: 3\n", r"w.yaml:5: `input_tokens` comes from the trace itself"),
        ("text: trace\n", r"w.yaml:5: no request of .*t.jsonl has a `text`"),
        ("concurrency: 3\n", r"w.yaml:5: `concurrency`: only arrival `closed_loop` has it, not 3"),
    ):
        with pytest.raises(UserError, match=message):
            workload(str(document(tmp_path, more)))
    (tmp_path / "t.jsonl").write_text("{}\n")
    with pytest.raises(UserError, match=r"t.jsonl:1: `timestamp` is missing"):
        workload(str(document(tmp_path)))
    (tmp_path / "t.jsonl").unlink()
    with pytest.raises(UserError, match=r"t.jsonl can't be read: no such file"):
        workload(str(document(tmp_path)))


OWN = "schema: day0/workload/v1\nname: w\ninput_tokens: 8\noutput_tokens: 4\n"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("arrival: closed_loop\n", r"w.yaml:1: `document`: arrival `closed_loop` needs it: how many clients ask"),
        ("arrival: closed_loop\nconcurrency: 0\n", r"w.yaml:6: `concurrency`: .*greater than or equal to 1, not 0"),
        ("concurrency: 4\n", r"w.yaml:5: `concurrency`: only arrival `closed_loop` has it, not 4"),
        ("arrival: bursts\n", r"w.yaml:5: `arrival`: .*'poisson', 'closed_loop', 'single_stream' or 'trace'"),
        ("trace: t.jsonl\n", r"w.yaml:5: `trace`: only arrival `trace` has it"),
        ("arrival: trace\n", r"w.yaml:3: `input_tokens` comes from the trace itself: leave it out"),
        ("text: trace\n", r"w.yaml:5: `text`: only arrival `trace` brings text of its own"),
        ("top_p: 0\n", r"w.yaml:5: `top_p`: .*greater than 0, not 0"),
        ("trace_digest: x\n", r"w.yaml:5: `trace_digest` comes from the trace itself"),
    ],
)
def test_keys_that_do_not_go_together_have_a_line(tmp_path, more, message):
    file = tmp_path / "w.yaml"
    file.write_text(OWN + more)
    with pytest.raises(UserError, match=message):
        workload(str(file))


def test_a_trace_without_a_file_is_said(tmp_path):
    file = tmp_path / "w.yaml"
    file.write_text("schema: day0/workload/v1\nname: w\narrival: trace\n")
    with pytest.raises(UserError, match=r"w.yaml:1: .*arrival `trace` needs it: the file"):
        workload(str(file))
