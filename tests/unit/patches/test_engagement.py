"""S44: a patch or a table that had no effect is told from the log of the boot that should show it."""

import pytest
from day0.runs.errors import CandidateFailed
from day0.runs.patches import Patch, Table
from day0.runs.values import sha256
from day0.tools.aiter_shapes import Shape
from day0.tools.engagement import check, no_effect

from tests.unit.patches.engine import EVIDENCE, METADATA
from tests.unit.patches.test_tables import KEY

PATCH = Patch(
    name="rocm-guard", title="t", author="codemod:rocm-guard", build="b", diff="d", before={},
    after={METADATA: sha256("x")}, gone=("'cuda_runtime.h' file not found", "fused_metadata_copy could not be built"),
)  # fmt: skip
SHAPE = Shape(token=1, model_dim=6144, inter_dim=512, expert=257, topk=9)
TABLE = Table(build="b", arch="gfx950", variable="AITER_CONFIG_FMOE", text="x", rows=1, shapes=(SHAPE.said(),))
UNTUNED = f"[aiter] [fused_moe] using 2stage default for {KEY.format(1)}\n"


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("all is well\n", ""),
        (f"[TP0] {EVIDENCE}\n", "fused_metadata_copy.cuh:5:10"),
        ("topk.cuh:3:10: fatal error: 'cuda_runtime.h' file not found\n", ""),
        (f"topk.cuh:3:10: fatal error: 'cuda_runtime.h' file not found\n{EVIDENCE}", "fused_metadata_copy.cuh:5:10"),
        ("fused_metadata_copy could not be built, falling back to loop", "falling back"),
    ],
)
def test_s44_a_patch_whose_message_is_still_there_had_no_effect(log, told):
    found = no_effect([PATCH], [], log.encode())
    assert told in found and bool(told) == bool(found)


def test_s44_a_table_whose_shapes_still_run_untuned_had_no_effect():
    assert "1 of its shapes run untuned" in no_effect([], [TABLE], UNTUNED.encode())
    hit = UNTUNED.replace("2stage default", "2stage (kernelName1='a', kernelName2='b')")
    assert no_effect([], [TABLE], hit.encode()) == ""
    other = UNTUNED.replace("512, 257", "256, 257")
    assert no_effect([], [TABLE], other.encode()) == "", "shapes of another layout are not this table's"
    with pytest.raises(CandidateFailed, match="bad_patch: the tuned table had no effect"):
        check([PATCH], [TABLE], UNTUNED.encode())
    check([PATCH], [TABLE], b"")
