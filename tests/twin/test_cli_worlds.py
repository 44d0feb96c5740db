"""`day0 worlds`: what ships, what is drawn, and what is wrong with a document, by its line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from day0.runs import documents
from day0.sandboxes.twin.world import world

Day0 = Callable[..., tuple[int, str, str]]
AXIS = "  - - {flags: {tp-size: 8, dp-size: 1}}"
CACHE = "    - {flags: {kv-cache-dtype: fp8_e4m3}}"
SHIPPED = documents.shipped("world", "glm-5.2").read_text(encoding="utf-8")


@pytest.fixture
def checked(day0: Day0, tmp_path: Path) -> Callable[[str, str], tuple[int, str]]:
    """Checks the shipped world with its first line that contains a text put otherwise: (that line, what was said)."""

    def check(holds: str, put: str) -> tuple[int, str]:
        lines = SHIPPED.splitlines()
        at = next(number for number, line in enumerate(lines) if holds in line)
        file = tmp_path / "own.yaml"
        file.write_text("\n".join([*lines[:at], put, *lines[at + 1 :]]) + "\n", encoding="utf-8")
        code, out, err = day0("worlds", "check", str(file))
        assert (code, out, len(err.splitlines())) == (2, "", 1), err
        assert err.startswith(f"day0: {file}:")
        return at + 1, err

    return check


@pytest.mark.parametrize(
    ("holds", "put", "told"),
    [
        ("  layer_us:", "  layer_us: fast", "`truth.layer_us`: input should be a valid number"),
        ("  layer_us:", "  layer_uss: 9.0", "unknown key `layer_uss`; allowed here: prompt, attention"),
        ("  - name: draft layers that", "  -", "`faults.0.name` is missing"),
        ("  - name: draft layers that", "  - names: draft layers", "unknown key `names`"),
        ("    kind: crash", "    kind: explosion", "`faults.0.kind`"),
        ("      flags: {speculative-algorithm: {absent: false}}",
         "      flags: {speculative-algorithmm: {absent: false}}",
         "the engine has no flag speculative-algorithmm; the nearest are speculative-algorithm"),
        (AXIS, "  - - {flags: {tp-sise: 8}}", "no flag tp-sise; the nearest are tp-size"),
        (AXIS, "  - - {flags: {tp-size: eight}}", "tp-size can't be 'eight': it is a whole"),
        (CACHE, "    - {flags: {kv-cache-dtype: fp7}}", "kv-cache-dtype can't be 'fp7': it is one"),
        (CACHE, "    - {flags: {disable-radix-cache: 3}}", "it is a switch"),
        (CACHE, "    - {build: other}", "there is no build other; there are lms"),
        ("      when: {flags: {dsa-decode-backend: {equals: tilelang}}}",
         "      when: {flags: {dsa-decode-backend: {equals: tilelan}}}", "dsa-decode-backend can't be 'tilelan'"),
        ("      header: sglang/", "      header: sglang/other.cuh", "no build has the file sglang/other.cuh"),
        ("    version: 0.5.13", "    version: [1]", "`builds.0.version`"),
        ("schema:", "schema: day0/world/v9", "schema `day0/world/v9` is not one that this day0 reads"),
        ("name: glm-5.2", "name: GLM 5.2", "`name`: string should match pattern"),
        ("noise:", "noise: {boot: 3.0}", "`noise.boot`: input should be less than or equal to 0.2"),
        ("tuned: {tune_s", "tuned: {tune_s: -1.0}", "`tuned.tune_s`"),
        ("summary:", "summary: [unclosed", ""),
    ],
)  # fmt: skip
def test_a_malformed_world_names_its_line(checked, holds: str, put: str, told: str) -> None:
    line, said = checked(holds, put)
    assert told in said
    if told and "is missing" not in told:
        assert f":{line}: " in said


def test_201_candidates_are_refused_where_the_space_begins(day0: Day0, tmp_path: Path) -> None:
    head = SHIPPED[: SHIPPED.index("space:\n")]
    for count, code in ((200, 0), (201, 2)):
        axis = "\n    ".join(f"- {{flags: {{max-running-requests: {n}}}}}" for n in range(1, count + 1))
        file = tmp_path / "own.yaml"
        file.write_text(f"{head}space:\n  - {axis}\n", encoding="utf-8")
        found, _, err = day0("worlds", "check", str(file))
        assert found == code, err
    assert f":{head.count(chr(10)) + 1}: `space`" in err and "holds 201 candidates, at most 200" in err


def test_two_builds_or_faults_of_one_name_are_refused(checked) -> None:
    name = next(line for line in SHIPPED.splitlines() if line.startswith("  - name: draft layers"))
    line, said = checked("  - name: a header without", name)
    assert "two have the same name" in said and line > 0


@pytest.mark.parametrize(
    "text", ["", "[1, 2]", "schema: day0/world/v1\n", "schema: day0/world/v1\nname: x\n", "a: &a 1"]
)
def test_what_is_no_world_is_one_sentence(day0: Day0, tmp_path: Path, text: str) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(text)
    code, _, err = day0("worlds", "check", str(file))
    assert code == 2 and len(err.splitlines()) == 1 and "own.yaml" in err
    assert day0("worlds", "check", "no-such-world")[0] == 2
    assert day0("worlds", "check", str(tmp_path))[0] == 2


def test_the_list_has_every_shipped_world_with_stable_keys(day0: Day0) -> None:
    code, out, _ = day0("worlds", "list", "--json")
    rows = json.loads(out)
    assert code == 0 and tuple(r["world"] for r in rows) == documents.names("world")
    assert all(set(r) == set(rows[0]) for r in rows)
    glm = next(r for r in rows if r["world"] == "glm-5.2")
    assert glm["origin"] == "zai-org/GLM-5.2" and glm["solved_by"] == "codemod" and glm["candidates"] == 144
    assert "glm-5.2" in day0("worlds", "list")[1]


def test_a_sampled_world_is_written_read_and_checked(day0: Day0, tmp_path: Path) -> None:
    file = tmp_path / "drawn.yaml"
    assert day0("worlds", "sample", "--seed", "11", "-o", str(file))[0] == 0
    code, out, _ = day0("worlds", "sample", "--seed", "11")
    assert code == 0 and out == file.read_text()
    assert day0("worlds", "check", str(file))[0] == 0
    assert world(str(file)).name == "sample-11"
    assert day0("worlds", "sample", "--seed", "11", "-o", str(tmp_path / "no" / "where"))[0] == 2
    assert day0("worlds", "sample", "--seed", "-1")[0] == 2
