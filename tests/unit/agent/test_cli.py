"""What a user types wrong is one sentence and exit code 2, never a traceback; what nobody foresaw is exit code 3."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from day0.agent.settings import load
from day0.runs.ledger import Ledger
from day0.runs.schema import RunStatus

Day0 = Callable[..., tuple[int, str, str]]


def wrong(day0: Day0, *argv: str) -> str:
    code, out, err = day0(*argv)
    assert code == 2, (code, out, err)
    assert "Traceback" not in out + err
    assert out == ""
    return err.strip()


def sentence(text: str) -> str:
    assert len(text.splitlines()) == 1, text
    assert text.startswith("day0: ")
    return text


@pytest.mark.parametrize("name", ["no-such-folder", "x; rm -rf /", "--host", "../..", "a/b/c"])
def test_s66_an_unknown_model_is_refused(day0: Day0, name: str) -> None:
    wrong(day0, "run", "--", name) if name.startswith("-") else wrong(day0, "run", name)


def test_a_folder_without_config(day0: Day0, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "config.json" in sentence(wrong(day0, "run", str(tmp_path / "empty")))


def test_a_workload_file_that_is_not_there(day0: Day0, model: Path) -> None:
    assert "nowhere.yaml" in sentence(wrong(day0, "run", str(model), "--workload", "nowhere.yaml"))


def test_a_malformed_workload_names_its_line(day0: Day0, model: Path, tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text("schema: day0/workload/v1\nname: w\ninput_tokens: many\noutput_tokens: 4\n")
    assert "w.yaml:3" in sentence(wrong(day0, "run", str(model), "--workload", str(file)))


def test_a_patch_that_is_none_or_that_the_target_cannot_carry(day0: Day0, model: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.diff"
    twin = ("run", "zai-org/GLM-5.2", "--target", "mi355x-twin", "--patch", str(file))
    assert "x.diff" in sentence(wrong(day0, *twin))
    file.write_text(
        "diff --git a/.github/x.py b/.github/x.py\n--- a/.github/x.py\n+++ b/.github/x.py\n@@ -1 +1 @@\n-a\n+b\n"
    )
    assert "belongs to a tool" in sentence(wrong(day0, *twin))
    file.write_text("rm -rf /\n")
    assert "is not `diff --git" in sentence(wrong(day0, *twin))
    told = sentence(wrong(day0, "run", str(model), "--target", "cpu", "--patch", str(file)))
    assert "share the engine's sources" in told


def test_an_impossible_slo(day0: Day0, model: Path, tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    text = "schema: day0/workload/v1\nname: w\ninput_tokens: 64\noutput_tokens: 4\nslo:\n  ttft_ms: 0.01\n"
    file.write_text(text)
    assert "impossible" in sentence(wrong(day0, "run", str(model), "--workload", str(file)))
    file.write_text(text.replace("0.01", "-5.0"))
    assert "w.yaml:6" in sentence(wrong(day0, "run", str(model), "--workload", str(file)))


def test_a_workload_longer_than_the_model(day0: Day0, model: Path) -> None:
    assert "context" in sentence(wrong(day0, "run", str(model), "--workload", "agentic-20k1k"))


@pytest.mark.parametrize("hours", ["-1", "0", "nan", "inf", "1e-300", "0.016"])
def test_a_budget_that_allows_nothing(day0: Day0, model: Path, hours: str) -> None:
    assert "budget" in sentence(wrong(day0, "run", str(model), "--budget-hours", hours))
    assert "budget" in sentence(wrong(day0, "resume", "r0", "--budget-hours", hours))


@pytest.mark.parametrize(
    "url", ["nonsense", "http://", "ftp://me:pw@host/v1", "https://me:pw@h:99999/v1", "http://a b/v1"]
)
def test_an_llm_address_that_is_none(day0: Day0, model: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("DAY0_LLM_BASE_URL", url)
    monkeypatch.setenv("DAY0_LLM_MODEL", "m")
    said = sentence(wrong(day0, "run", str(model)))
    assert "llm_base_url" in said and "https://host/v1" in said
    assert "pw@" not in said


def test_an_empty_llm_address_is_none(day0: Day0, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAY0_LLM_BASE_URL", " ")
    assert "needs DAY0_LLM_BASE_URL" in sentence(wrong(day0, "run", str(model), "--policy", "llm"))


def test_an_unknown_target_names_those_there_are(day0: Day0, model: Path) -> None:
    assert "cpu-quick" in sentence(wrong(day0, "run", str(model), "--target", "mi999"))


def test_a_target_that_cannot_be_reached_says_all_that_is_missing(day0: Day0, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    code, out, err = day0("run", "zai-org/GLM-5.2", "--target", "mi355x")
    assert (code, out) == (3, "")
    said = sentence(err.strip())
    assert "no Docker daemon answers at unix:///nowhere/docker.sock" in said
    assert "day0 engine install harness" in said, "not the first that is missing alone"


def test_a_target_of_containers_names_its_image(day0: Day0, model: Path, tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "runs/library/target/cpu-docker.yaml").read_text()
    (tmp_path / "mine.yaml").write_text("".join(ln for ln in text.splitlines(True) if not ln.startswith("image:")))
    assert "image" in sentence(wrong(day0, "run", str(model), "--target", "mine.yaml"))


@pytest.mark.parametrize(
    ("flag", "why"), [("trust-remote-code: true", "consent"), ("load-format: dummy", "random"), ("port: 80", "itself")]
)
def test_s60_a_target_file_is_no_consent(day0: Day0, model: Path, tmp_path: Path, flag: str, why: str) -> None:
    text = (Path(__file__).parents[3] / "runs/library/target/cpu.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(text.replace("base_flags:\n", f"base_flags:\n  {flag}\n"))
    said = sentence(wrong(day0, "submit", str(model), "--target", "mine.yaml"))
    assert why in said and "target" in said


def test_an_unknown_policy(day0: Day0, model: Path) -> None:
    assert "playbook" in sentence(wrong(day0, "run", str(model), "--policy", "magic"))


def test_the_llm_policy_without_an_llm(day0: Day0, model: Path) -> None:
    assert "DAY0_LLM_BASE_URL" in sentence(wrong(day0, "run", str(model), "--policy", "llm"))


def test_a_run_without_an_engine_says_how_to_install_one_and_queues_nothing(day0: Day0, model: Path) -> None:
    assert "day0 engine install cpu" in sentence(wrong(day0, "run", str(model)))
    assert json.loads(day0("queue", "--json")[1]) == []


def test_an_unknown_run_names_the_nearest(day0: Day0, model: Path) -> None:
    code, out, err = day0("submit", str(model), "--json")
    assert code == 0, err
    known = json.loads(out)["run"]
    near = known[:-1] + "9"
    for command in ("show", "attempts", "cancel", "recipe", "resume"):
        assert known in sentence(wrong(day0, command, near)), command


def test_s07_the_same_request_joins(day0: Day0, model: Path) -> None:
    first = json.loads(day0("submit", str(model), "--json")[1])
    second = json.loads(day0("submit", str(model), "--json", "--budget-hours", "3")[1])
    assert second["run"] == first["run"]
    assert second["joined"]
    assert not first["joined"]
    rows = json.loads(day0("queue", "--json")[1])
    assert [r["run"] for r in rows] == [first["run"]]
    assert rows[0]["status"] == "queued"
    assert "no winner" not in day0("show", first["run"])[1], "it has not begun"


def test_limits_that_a_joined_run_does_not_take_are_told_with_the_way_to_set_them(day0: Day0, model: Path) -> None:
    first = json.loads(day0("submit", str(model), "--json", "--budget-hours", "2")[1])
    assert first["ignored"] == {}
    code, out, err = day0("submit", str(model), "--json", "--budget-hours", "3", "--max-attempts", "5")
    told = json.loads(out)
    assert (code, told["run"], told["joined"]) == (0, first["run"], True)
    assert told["ignored"]["budget_hours"] == {"asked": 3.0, "kept": 2.0}
    assert told["ignored"]["max_attempts"]["asked"] == 5
    assert f"`day0 resume {first['run']} --budget-hours 3 --max-attempts 5`" in err
    assert len(err.strip().splitlines()) == 1
    assert json.loads(day0("submit", str(model), "--json", "--budget-hours", "2")[1])["ignored"] == {}
    assert day0("submit", str(model), "--json")[2] == ""


def test_a_retry_of_what_has_not_ended_says_so(day0: Day0, model: Path) -> None:
    run = json.loads(day0("submit", str(model), "--json")[1])["run"]
    said = sentence(wrong(day0, "retry", run))
    assert "queued already" in said and f"day0 resume {run}" in said
    with closing(Ledger.open(load().database)) as ledger, ledger.write(run) as writer:
        writer.move_run(RunStatus.RUNNING)
    assert "running already" in sentence(wrong(day0, "retry", run))


def test_cancel_of_a_queued_run(day0: Day0, model: Path) -> None:
    run = json.loads(day0("submit", str(model), "--json")[1])["run"]
    assert day0("cancel", run)[0] == 0
    assert json.loads(day0("show", run, "--json")[1])["status"] == "cancelled"
    assert "ended already" in day0("cancel", run)[1]


def test_show_has_stable_keys(day0: Day0, model: Path) -> None:
    run = json.loads(day0("submit", str(model), "--json")[1])["run"]
    told = json.loads(day0("show", run, "--json")[1])
    assert {"run", "status", "winners", "attempts", "refused", "orchestration", "search_ended", "reason"} <= set(told)
    assert json.loads(day0("show", run, "--json", "--canonical")[1])["run"]["status"] == "queued"
    assert "--json" in sentence(wrong(day0, "show", run, "--canonical"))


def test_a_log_that_is_not_there(day0: Day0, model: Path) -> None:
    run = json.loads(day0("submit", str(model), "--json")[1])["run"]
    assert f"{run}.1" in sentence(wrong(day0, "log", f"{run}.1"))


def test_diagnose_reads_a_log_and_exits_0_for_unknown(day0: Day0, tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_text("nothing to see\n")
    code, out, _ = day0("diagnose", str(file), "--json")
    assert code == 0
    assert json.loads(out)["class"] == "unknown"
    assert "can't be read" in sentence(wrong(day0, "diagnose", str(tmp_path / "none.log")))


def test_a_recipe_that_is_none(day0: Day0, tmp_path: Path) -> None:
    assert "none.yaml" in sentence(wrong(day0, "replay", "none.yaml"))
    (tmp_path / "r.yaml").write_text("schema: day0/recipe/v1\nreplay: 3\n")
    assert "r.yaml:" in sentence(wrong(day0, "replay", "r.yaml"))


def test_a_recipe_whose_model_lies_elsewhere_asks_for_the_folder(home: Path) -> None:
    from day0.agent.replaying import model_folder
    from day0.agent.settings import load
    from day0.runs.errors import UserError
    from day0.runs.recipe import ModelPin, Recipe

    pin = ModelPin(id="/nowhere/tiny", revision="sha256:ab")
    with pytest.raises(UserError, match="--model"):
        model_folder(Recipe.model_construct(model=pin), None, load())


def test_a_wrong_setting_names_its_key(day0: Day0, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text("budget_hours = -3\n")
    assert "budget_hours" in sentence(wrong(day0, "queue"))
    (home / "config.toml").write_text("colour = 'blue'\n")
    assert "colour" in sentence(wrong(day0, "queue"))
    (home / "config.toml").write_text("= broken\n")
    assert "config.toml" in sentence(wrong(day0, "queue"))


def test_what_nobody_foresaw_is_one_sentence_and_a_file(
    day0: Day0, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAY0_LLM_API_KEY", "s3cret-value-of-a-key")

    def surprise(*_: object, **__: object) -> None:
        raise ZeroDivisionError("s3cret-value-of-a-key has leaked into a message")

    monkeypatch.setattr("day0.agent.looking.queue", surprise)
    code, out, err = day0("queue")
    assert (code, out) == (3, "")
    assert len(err.splitlines()) == 1
    assert "ZeroDivisionError" in err
    (file,) = (home / "logs").iterdir()
    assert "Traceback" in file.read_text()
    assert "s3cret" not in file.read_text() + err


def test_usage_errors_are_exit_2(day0: Day0) -> None:
    assert day0("run")[0] == 2
    assert day0("show", "r1", "--nonsense")[0] == 2
    assert day0("no-such-command")[0] == 2


def test_help_and_the_module_form() -> None:
    argv = [sys.executable, "-m", "day0.agent", "--help"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0
    for command in (
        "run",
        "submit",
        "queue",
        "resume",
        "cancel",
        "retry",
        "show",
        "attempts",
        "log",
        "compare",
        "recipe",
    ):
        assert command in done.stdout
    for command in ("replay", "diagnose", "engine", "doctor", "gc"):
        assert command in done.stdout


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['day0', '--help']\nfrom day0.agent.cli import main\n"
        "try:\n main()\nexcept SystemExit: pass\n"
        "heavy = {'sqlalchemy', 'langgraph', 'openai', 'numpy', 'scipy', 'huggingface_hub', 'docker', 'git',"
        " 'pydantic', 'httpx', 'yaml', 'zstandard'}\nprint(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert done.stderr.strip() == "[]"


def test_doctor_says_what_is_missing(day0: Day0) -> None:
    code, out, _ = day0("doctor", "--json")
    found = {c["name"]: c for c in json.loads(out)}
    assert code == 3
    assert not found["engine"]["ok"]
    assert found["engine"]["advice"] == "day0 engine install cpu"
    assert found["Python"]["ok"]


def test_gc_keeps_what_is_young(day0: Day0) -> None:
    code, out, err = day0("gc")
    assert code == 0, err
    assert "removed 0 artifacts" in out


def test_engine_list_of_nothing(day0: Day0) -> None:
    code, out, _ = day0("engine", "list", "--json")
    assert (code, json.loads(out)) == (0, [])
    assert "cpu" in sentence(wrong(day0, "engine", "install", "tpu"))


def test_engine_list_tells_what_is_whole_and_what_is_not(day0: Day0, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    for name, marker in (("evals-1", '{"packages": {}, "seconds": 3}'), ("harness-1", "")):
        folder = load().home / "engines" / name
        info = folder / "lib/python3.11/site-packages/x-1.dist-info"
        info.mkdir(parents=True)
        (info / "RECORD").write_text("x.py,sha256=abc,3\n")
        (folder / "pyvenv.cfg").write_text("")
        (folder / "day0-environment.json").write_text(marker)
    code, out, err = day0("engine", "list")
    assert code == 0, err
    told = {name: line for name in ("evals-1", "harness-1") for line in out.splitlines() if f" {name} " in line}
    assert "sha256:" in told["evals-1"] and "not finished" in told["harness-1"], out


def test_an_argument_that_is_no_text() -> None:
    code = "import sys; from day0.agent.cli import main; sys.argv[0] = 'day0'; main()"
    ran = subprocess.run([sys.executable, "-c", code, "show", b"\xff"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "not UTF-8" in sentence(ran.stderr.strip())


def test_a_home_that_is_a_file(day0: Day0, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DAY0_HOME", str(tmp_path / "file"))
    assert "DAY0_HOME" in sentence(wrong(day0, "gc"))
    code, out, _ = day0("doctor", "--json")
    assert code == 3
    assert next(check for check in json.loads(out) if check["name"] == "disk")["ok"] is False


def test_the_reference_has_every_command() -> None:
    import typer
    from day0.agent.cli import app

    text = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
    assert [n for n in typer.main.get_command(app).commands if f"## `day0 {n}`" not in text] == []


@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize("argv", [("queue",), ("queue", "--json"), ("--help",)])
def test_output_that_nobody_can_take_is_one_sentence(home: Path, argv: tuple[str, ...], unbuffered: bool) -> None:
    env = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    if unbuffered:
        env["PYTHONUNBUFFERED"] = "1"
    day0 = str(Path(sys.executable).parent / "day0")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([day0, *argv], stdout=full, stderr=subprocess.PIPE, text=True, env=env, check=False)
    assert done.returncode == 3
    assert "can't be written: No space left" in sentence(done.stderr.strip())
    assert not (home / "logs").exists()


def test_a_reader_that_went_away_is_no_failure_to_tell_of(home: Path) -> None:
    day0 = str(Path(sys.executable).parent / "day0")
    with subprocess.Popen([day0, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert "Traceback" not in said and "unexpected" not in said and "Exception" not in said


def test_answers_of_an_llm_that_was_never_asked_can_not_be_replayed(day0: Day0, model: Path) -> None:
    assert "r00000000-1" in sentence(wrong(day0, "replay-llm", "r00000000-1"))
    code, out, _ = day0("submit", str(model), "--json")
    assert code == 0
    assert "asked no LLM" in sentence(wrong(day0, "replay-llm", json.loads(out)["run"]))
