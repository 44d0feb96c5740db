import json

import pytest
from day0.runs.errors import UserError
from day0.tools.forecast.against import against, read_models, read_rows
from hypothesis import given, settings
from hypothesis import strategies as st

ROW = {"model": "glm5", "precision": "fp8", "hw": "mi355x", "engine": "sglang", "tp": "4", "dp": "1", "ep": "1",
       "dp_attn": "0", "spec": "none", "isl": "8192", "osl": "1024", "load_kind": "concurrency",
       "concurrency_or_rps": "16", "cache_hit": "0", "num_gpu": "4", "tput_kind": "total_in+out",
       "tok_s_per_gpu": "878.1"}  # fmt: skip


def one(**changes):
    return against([{**ROW, **changes}])["rows"][0]


def test_a_row_keeps_its_columns_and_gains_predictions():
    made = one(extra="kept")
    assert made["extra"] == "kept"
    assert made["pred_tok_s_per_gpu"] == pytest.approx(878, rel=0.3)
    assert made["pred_low"] < made["pred_tok_s_per_gpu"] < made["pred_high"]
    assert made["pred_tpot_ms"] == pytest.approx(38.5, rel=0.4)
    assert 0.01 < made["pred_ttft_p50"] < 20


def test_throughput_is_of_the_rows_kind_and_divides_by_its_accelerators():
    total, output, prompts = (
        one(tput_kind=k)["pred_tok_s_per_gpu"] for k in ("total_in+out", "output", "prefill_input")
    )
    assert total == pytest.approx(output * 9, rel=1e-3)
    assert total == pytest.approx(prompts + output, rel=1e-3)
    assert one(num_gpu="8")["pred_tok_s_per_gpu"] == pytest.approx(total / 2, rel=1e-3)
    assert one(num_gpu="")["pred_tok_s_per_gpu"] == total


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model": "glm"}, "in no table"),
        ({"model": ""}, "in no table"),
        ({"precision": ""}, "precision is empty"),
        ({"precision": "fp3"}, "precision is unknown"),
        ({"hw": "mi999"}, "no figures for accelerator"),
        ({"hw": None}, "no figures for accelerator"),
        ({"tp": ""}, "tp is empty"),
        ({"tp": "0"}, "tp is out of range"),
        ({"tp": "2.5"}, "tp is out of range"),
        ({"isl": "agentic(~99k)"}, "isl is not a number"),
        ({"isl": "nan"}, "isl is out of range"),
        ({"osl": "-3"}, "osl is out of range"),
        ({"osl": "1e999"}, "osl is out of range"),
        ({"concurrency_or_rps": ""}, "concurrency_or_rps is empty"),
        ({"concurrency_or_rps": "saturated"}, "concurrency_or_rps is not a number"),
        ({"concurrency_or_rps": "0"}, "concurrency_or_rps is out of range"),
        ({"cache_hit": "1.5"}, "cache_hit is out of range"),
        ({"cache_hit": "lots"}, "cache_hit is not a number"),
        ({"spec": "?"}, "spec is unknown"),
        ({"tput_kind": "goodput"}, "tput_kind is unknown"),
        ({"load_kind": "open_loop_rps", "concurrency_or_rps": "xrps"}, "not a number"),
        ({"num_gpu": "four"}, "num_gpu is not a number"),
    ],
)
def test_what_cannot_be_predicted_is_skipped_with_its_reason(changes, reason):
    made = one(**changes)
    assert reason in made["skipped"]
    assert "pred_tok_s_per_gpu" not in made


def test_missing_columns_take_their_usual_meaning_or_are_named():
    few = {k: ROW[k] for k in ("model", "precision", "hw", "tp", "isl", "osl", "concurrency_or_rps")}
    assert against([few])["rows"][0]["pred_tok_s_per_gpu"] > 0
    del few["isl"]
    assert against([few])["rows"][0]["skipped"] == "isl is empty"


def test_further_models_come_from_the_callers_table():
    tiny = {"hf": ["org/Tiny"], "aliases": ["t1"], "layers": 12, "hidden": 2048, "heads": 16, "kv_heads": 4,
            "head_dim": 128, "ffn": 8192, "vocab": 32000, "attn": "GQA"}  # fmt: skip
    table = {"_notes": "text", "tiny": tiny, "broken": {"layers": "many"}}
    rows = [{**ROW, "model": m} for m in ("tiny", "org/tiny", "T1", "broken", "tin")]
    made = against(rows, table)["rows"]
    assert all("pred_tok_s_per_gpu" in row for row in made[:3])
    assert "broken" in made[3]["skipped"]
    assert "in no table" in made[4]["skipped"]


def test_the_summary_counts_and_compares():
    made = against([ROW, {**ROW, "model": "x"}, {**ROW, "tok_s_per_gpu": ""}])["summary"]
    assert (made["rows"], made["predicted"], made["skipped"], made["compared"]) == (3, 2, 1, 1)
    assert list(made["skipped_reasons"].values()) == [1]
    assert made["median_abs_error"] < 0.5


def test_no_rows_is_an_answer():
    made = against([])
    assert made["rows"] == []
    assert made["summary"]["median_abs_error"] is None


WORDS = ["0", "1", "8", "-1", "inf", "1e9", "fp4", "mtp"]


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(st.sampled_from(sorted(ROW)), st.none() | st.text(max_size=12) | st.sampled_from(WORDS), max_size=6)
)
def test_no_row_whatever_it_holds_raises(changes):
    made = one(**changes)
    assert ("skipped" in made) != ("pred_tok_s_per_gpu" in made)
    json.dumps(made, allow_nan=False)


def test_files_that_are_no_tables_are_one_sentence(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe\x00model")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "m.json").write_text("[1]")
    (tmp_path / "n.json").write_text("{")
    for name in ("a.csv", "b.csv", "empty.csv", "none.csv", "."):
        with pytest.raises(UserError, match=str(tmp_path)):
            read_rows(tmp_path / name)
    for name in ("m.json", "n.json", "none.json"):
        with pytest.raises(UserError, match=name):
            read_models(tmp_path / name)
