import json
from pathlib import Path

import pytest
import typer
from day0.agent.cli_forecast import add_to
from day0.runs.errors import UserError
from typer.testing import CliRunner

CITED = Path(__file__).with_name("cited_points.csv")


@pytest.fixture
def ask():
    app = typer.Typer()
    app.callback()(lambda: None)
    add_to(app)
    return lambda *words: CliRunner().invoke(app, ["forecast", *words])


def test_the_table_names_layouts_costs_and_what_to_expect(ask):
    result = ask("zai-org/GLM-5.2", "--target", "mi355x")
    assert result.exit_code == 0
    for words in ("TP4xDP2 fp4 +MTP", "USD/Mtok", "b200", "prices: InferenceX", "expect: FP4 experts", "do not fit"):
        assert words in result.output


def test_json_has_stable_keys(ask):
    made = json.loads(ask("glm-5.2", "--json").output)
    assert {"model", "layouts", "omens", "cost", "assumes", "trust", "accelerator", "gpus", "workload"} <= set(made)
    assert {"name", "fits", "why", "low", "high", "node_output_tok_s", "usd_per_mtok", "knee"} <= set(
        made["layouts"][0]
    )


def test_all_lists_what_does_not_fit(ask):
    assert "does not fit: TP1" in ask("glm-5.2", "--all").output


def test_against_prints_rows_as_json_or_a_summary(ask):
    made = json.loads(ask("--against", str(CITED), "--json").output)
    assert set(made) == {"rows", "summary"}
    assert made["rows"][0]["source"]
    assert "80 % intervals hold" in ask("--against", str(CITED)).output


@pytest.mark.parametrize(
    "words", [(), ("no such model",), ("glm-5.2", "--target", "moon"), ("--against", "nothing.csv")]
)
def test_wrong_use_is_a_user_error(ask, words):
    result = ask(*words)
    assert isinstance(result.exception, UserError)
    assert result.exception.exit_code == 2
