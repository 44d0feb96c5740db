"""Tasks of full evals from the user's files, controls, and published scores."""

from __future__ import annotations

import json

import pytest
from day0.agent import contained
from day0.agent.settings import load
from day0.runs.accuracy import label
from day0.runs.errors import Infrastructure, UserError
from day0.tools import modelcard, noninferiority
from day0.tools.evals import Row, Scores, asked, broken, files, prepared
from day0.tools.evaluating import own_environment, places
from day0.tools.harness.evaluate import rows

GSM = {"question": "Two hens lay 3 eggs each. How many eggs?", "answer": "2 * 3 = 6\n#### 6"}
GPQA = {
    "Question": "Which is largest?", "Correct Answer": "a galaxy", "Incorrect Answer 1": "a star",
    "Incorrect Answer 2": "a moon", "Incorrect Answer 3": "a stone",
}  # fmt: skip


def written(path, *lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("line", "kind", "target"),
    [(GSM, "gsm8k", "6"), (GPQA, "gpqa", None), ({"prompt": "1+1=", "answer": "2"}, "plain", "2")],
)
def test_files_of_the_benchmarks_own_schemas_are_known_by_their_keys(tmp_path, line, kind, target):
    path = written(tmp_path / "task.jsonl", line, line)
    (made,) = asked([f"maths={path}"], [], None)
    assert (made.kind, made.margin, made.file) == (kind, 0.01, str(path))
    rows = prepared(made, path.read_bytes())
    assert len(rows) == 2 and (target is None or rows[0]["target"] == target)
    if kind == "gpqa":
        letter = rows[0]["target"]
        assert f"({letter}) a galaxy" in rows[0]["prompt"], "the letter is that of the right choice"
    laid = files(made)
    document = json.loads(laid["maths.yaml"])
    assert document["dataset_kwargs"] == {"data_files": {"test": "task/maths.jsonl"}}
    assert len(laid["maths.jsonl"].splitlines()) == 2


def test_a_users_own_task_is_plain_yaml_with_its_data_beside_it(tmp_path):
    written(tmp_path / "data.jsonl", {"q": 1})
    own = tmp_path / "own.yaml"
    own.write_text("task: x\ndataset_kwargs: {data_files: {test: data.jsonl}}\noutput_type: generate_until\n")
    (made,) = asked([f"own={own}"], [], 2.0)
    assert made.kind == "lm-eval" and made.margin == 0.02
    laid = files(made)
    assert set(laid) == {"data.jsonl", "own.yaml"} and json.loads(laid["own.yaml"])["task"] == "own"
    own.write_text("task: x\nprocess_docs: !function utils.f\n")
    with pytest.raises(UserError, match="functions in it are not run"):
        asked([f"own={own}"], [], None)
    own.write_text("task: x\ndataset_kwargs: {data_files: ../data.jsonl}\n")
    with pytest.raises(UserError, match="must lie beside it"):
        asked([f"own={own}"], [], None)


def test_a_file_that_changed_since_is_not_asked(tmp_path):
    path = written(tmp_path / "task.jsonl", GSM)
    (made,) = asked([f"maths={path}"], [], None)
    written(path, GSM, GSM)
    with pytest.raises(Infrastructure, match="submit it again"):
        files(made)


@pytest.mark.parametrize(
    ("words", "commands", "margin", "why"),
    [
        (["maths"], [], None, "an eval is NAME=FILE"),
        (["maths=/nowhere.jsonl"], [], None, "can't be read"),
        ([], ["tau2=python tau2.py"], None, "must name {base_url}"),
        ([], ["tau2=run {base_url} {out}", "tau2=run {base_url} {out}"], None, "the same name"),
        ([], [], 0.0, "makes no sense"),
    ],
)
def test_a_mistake_is_one_sentence(words, commands, margin, why):
    with pytest.raises(UserError, match=why):
        asked(words, commands, margin)
    (tau,) = asked([], ["tau2=python t.py --url {base_url} --model {model} --out {out}"], 1.5)
    assert tau.kind == "command" and tau.margin == 0.015 and tau.command[3] == "{base_url}"


def test_a_file_of_no_known_schema_says_what_it_has(tmp_path):
    with pytest.raises(UserError, match="it has foo"):
        asked([f"x={written(tmp_path / 'x.jsonl', {'foo': 1})}"], [], None)


def scores(right, read=1.0, count=100):
    return Scores(
        task="t", rows=tuple(Row(key=str(i), right=i < right, answered=i < read * count) for i in range(count))
    )


def test_s35_a_control_whose_answers_are_cut_off_by_its_thinking_says_nothing_about_candidates():
    assert broken(scores(97)) == ""
    assert "only 40% of the reference's own answers could be read" in broken(scores(30, 0.4))
    assert "nothing right" in broken(scores(0)) and "not one" in broken(Scores(task="t", rows=()))


def test_s65_what_a_command_names_is_shown_to_its_container_only_from_folders_that_may_be(tmp_path, monkeypatch):
    monkeypatch.delenv("DAY0_MODEL_FOLDERS", raising=False)
    mine, elsewhere, venv = tmp_path / "mine", tmp_path / "elsewhere", tmp_path / "mine/venv"
    for folder in (mine, elsewhere, venv / "bin", tmp_path / "home"):
        folder.mkdir(parents=True)
    for file in (mine / "run.py", elsewhere / "data.jsonl", venv / "pyvenv.cfg"):
        file.write_text("")
    text = (
        f"{venv}/bin/python {mine}/run.py --data={elsewhere}/data.jsonl --tasks retail /not/there {{base_url}} {{out}}"
    )
    (made,) = asked([], [f"tau2={text}"], None)
    assert places(made) == (str(mine), str(elsewhere)) and own_environment(made) == str(venv)
    (plain,) = asked([], ["other=python3 -c x {base_url} {out}"], None)
    assert places(plain) == () and own_environment(plain) == ""
    settings = load(home=tmp_path / "home", model_folders=(mine,))
    for path in (*places(made)[:1], own_environment(made)):
        contained.show(settings, path)
    with pytest.raises(UserError, match=r"elsewhere lies outside of what a sandbox may be shown.*`model_folders`"):
        contained.show(settings, str(elsewhere))


def test_what_lm_eval_logs_becomes_rows_known_by_their_questions():
    samples = {"t": [
        {"doc": {"prompt": "a"}, "filtered_resps": ["6"], "exact_match": 1.0},
        {"doc": {"prompt": "b"}, "filtered_resps": ["[invalid]"], "exact_match": 0.0},
    ]}  # fmt: skip
    found = {r["right"]: r["answered"] for r in rows(samples)}
    assert found == {True: True, False: False}


def test_scores_of_a_model_card_are_numbers_of_its_front_matter_alone(tmp_path):
    assert modelcard.scores(tmp_path) == {}
    result = "      - dataset: {name: GSM8K}\n        metrics: [{type: exact_match, value: 96.5}]\n"
    odd = "      - dataset: {name: GPQA Diamond}\n        metrics: [{type: acc, value: high}]\n"
    card = tmp_path / "README.md"
    card.write_text(f"---\nmodel-index:\n  - name: m\n    results:\n{result}{odd}---\nGSM8K: 99\n")
    found = modelcard.scores(tmp_path)
    assert found == {"GSM8K": 0.965}
    assert modelcard.of("gsm8k", found) == 0.965 and modelcard.of("gpqa", found) is None
    card.write_text("---\nmodel-index: [1, {results: {a: 1}}]\n---\n")
    assert modelcard.scores(tmp_path) == {}


def test_the_published_marginals_of_glm_5_2_are_inconclusive_at_one_point():
    shown = noninferiority.marginals(0.965, 0.955, 200, margin=0.01).judgement("gsm8k", "the model card", tier=2)
    assert shown.verdict == "inconclusive" and not shown.paired
    assert shown.needed > 200 and shown.decidable > 0.01
    assert label([shown]) == "inconclusive" and "from published shares alone" in shown.told()


def test_the_label_is_that_of_the_worst_full_eval_and_tier_1_is_never_lossless():
    def judged(tier, lost, won=0, items=2000):
        found = noninferiority.of_counts(items, 1900, lost, won, margin=0.01)
        return found.judgement(f"t{lost}", "same-stack", tier=tier)

    assert judged(1, 0).verdict == "no collapse"
    assert label([judged(1, 0)]) == "no collapse" and label([]) == "accuracy unverified"
    assert label([judged(1, 0), judged(2, 0)]) == "lossless within margin"
    few = noninferiority.of_counts(200, 190, 2, 1, margin=0.01).judgement("few", "same-stack", tier=2)
    assert few.verdict == "inconclusive" and few.needed > 200 and few.decidable > 0.01
    assert label([judged(2, 0), few]) == "inconclusive"
    assert label([judged(2, 0), judged(2, 100)]) == "lossy"
    nothing = noninferiority.paired({}, {"a": True}, margin=0.01).judgement("t", "same-stack", tier=2)
    assert label([nothing]) == "accuracy unverified"
