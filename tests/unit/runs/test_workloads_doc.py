"""docs/workloads.md says what there is: every key that a document may have, every shipped workload with its figures."""

import re
from pathlib import Path

import pytest
from day0.runs.documents import TRACED, names, workload
from day0.runs.workload import Slo, Workload

TEXT = (Path(__file__).parents[3] / "docs" / "workloads.md").read_text()


def test_every_key_is_described():
    own = set(Workload.model_fields) - set(TRACED[-2:])
    assert {key for key in own | set(Slo.model_fields) if f"`{key}`" not in TEXT} == set()


@pytest.mark.parametrize("name", names("workload"))
def test_every_shipped_workload_stands_there_with_its_lengths(name):
    found = workload(name)
    row = re.search(rf"(?m)^\| `{name}` \| ([\d,]+) \| ([\d,]+) \| (.*?) \|", TEXT)
    assert row, name
    assert [int(cell.replace(",", "")) for cell in row.groups()[:2]] == [found.input_tokens, found.output_tokens]
    shared = "–" if not found.cached_share else f"{found.cached_share:.0%}".replace("%", " %")
    assert row[3] == shared if shared == "–" else row[3] == f"{shared}, {found.prefixes} prefixes"


def test_what_must_be_shipped_is():
    assert {"agentic-20k1k", "single-stream-10k1500", "chat-1k1k", "summarize-8k1k", "cpu-chat"} <= set(
        names("workload")
    )
