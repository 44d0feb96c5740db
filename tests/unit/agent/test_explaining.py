"""`day0 diagnose`: what it prints of a log, and what it says of a file that is none."""

import json

import pytest
from day0.agent.cli import app
from day0.agent.explaining import diagnosed
from day0.runs.errors import UserError
from typer.testing import CliRunner

FAULT = (
    b"[aiter] [fused_moe] using 1stage default for (gfx950, 4096, 256, 288, 8)\n"
    b"Memory access fault by GPU node-2 (Agent handle: 0x5) on address 0x7f. Reason: Unknown.\n"
)


def test_a_log_is_explained_as_json_under_the_names_of_the_contract(tmp_path):
    file = tmp_path / "server.log"
    file.write_bytes(FAULT)
    ran = CliRunner().invoke(app, ["diagnose", str(file), "--json"])
    found = json.loads(ran.stdout)
    assert ran.exit_code == 0
    assert {"class", "issue", "confidence", "evidence", "remedies"} <= set(found)
    assert (found["class"], found["issue"]) == ("memory_fault", "aiter-one-stage-default-fault")
    assert found["evidence"].startswith("Memory access fault") and found["confidence"] > 0.9
    assert found["remedies"][0]["flags"] == {"moe-runner-backend": "triton"}
    assert all(r["kind"] and r["text"] for r in found["remedies"])


def test_unknown_is_an_answer_with_the_lines_that_tell_most(tmp_path):
    file = tmp_path / "other.log"
    file.write_text("starting\nFooError: the frobnicator is upset\nbye\n")
    ran = CliRunner().invoke(app, ["diagnose", str(file), "--json"])
    found = json.loads(ran.stdout)
    assert ran.exit_code == 0
    assert (found["class"], found["issue"], found["confidence"]) == ("unknown", "unknown", 0.0)
    assert found["telling"] == ["FooError: the frobnicator is upset"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "can't be read: no such file"),
        (b"\x7fELF\x02\x01\x01" + bytes(4000), "is no text"),
        (b"\x1f\x8b\x08\x00abc", "is packed (gzip): unpack it first"),
        (b"\x28\xb5\x2f\xfdabc", "is packed (zstd)"),
        ("folder", "is a folder"),
    ],
)
def test_a_file_that_is_no_log_is_one_sentence(tmp_path, content, said):
    file = tmp_path / "x.log"
    if content == "folder":
        file.mkdir()
    elif content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError) as error:
        diagnosed(file)
    assert said in str(error.value) and "\n" not in str(error.value)
    assert error.value.exit_code == 2


def test_an_empty_log_and_one_of_escapes_are_logs(tmp_path):
    file = tmp_path / "x.log"
    file.write_bytes(b"")
    assert diagnosed(file)["class"] == "unknown"
    file.write_bytes(b"\x1b[31mred\x1b[0m\r\n" * 400 + FAULT)
    assert diagnosed(file)["class"] == "memory_fault"
