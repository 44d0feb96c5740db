from dataclasses import replace
from pathlib import Path

import pytest
from day0.tools.forecast.against import read_rows
from day0.tools.forecast.hardware import hardware
from day0.tools.forecast.names import Names
from day0.tools.forecast.point import Point


@pytest.fixture(scope="session")
def cited() -> list[dict]:
    """Published points, each with its source."""
    return read_rows(Path(__file__).with_name("cited_points.csv"))


@pytest.fixture(scope="session")
def make_point():
    names = Names()

    def make(model: str = "glm-5.2", accelerator: str = "mi355x", **changes) -> Point:
        geometry, family = names.find(model)
        base = Point(geometry=geometry, hardware=hardware(accelerator), precision="fp8", engine="sglang", tp=8,
                     family=family, input_tokens=7373.0, output_tokens=922.0, concurrency=16.0)  # fmt: skip
        return replace(base, **changes)

    return make
