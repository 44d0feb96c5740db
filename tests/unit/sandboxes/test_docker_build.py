"""What a build's log tells, and which client builds."""

from __future__ import annotations

from pathlib import Path

import pytest
from day0.runs.errors import Infrastructure
from day0.sandboxes.docker_build import Build, client_of, command, instructions, line_of, outcome

DOCKERFILE = """# comment
FROM base:1 AS tools
ARG X
RUN make \\
  # a comment inside
  all
COPY a b

FROM tools
ENV A=1
RUN echo one && \\
    false
"""
LOG = b"""#7 [tools 2/3] RUN make   all
#7 DONE 0.1s
#9 [stage-1 2/2] RUN echo one &&     false
#9 0.212 one
#9 0.300 fatal: no kernel for gfx950
#9 ERROR: executor failed running [/bin/sh -c echo one &&     false]: exit code: 1
"""


def test_instructions_keep_the_line_they_begin_at():
    assert [line for line, _ in instructions(DOCKERFILE)] == [2, 3, 4, 7, 9, 10, 11]
    assert instructions(DOCKERFILE)[2][1] == "RUN make all"


@pytest.mark.parametrize(
    ("stage", "at", "line"), [("tools", 2, 4), ("tools", 3, 7), ("stage-1", 2, 11), ("", 2, 11), ("stage-1", 9, None)]
)
def test_a_numbered_step_is_found_in_its_stage(stage, at, line):
    assert line_of(DOCKERFILE, stage, at) == line


def test_a_failed_step_is_named_with_line_and_last_words():
    done = outcome("", LOG, 1.0, DOCKERFILE)
    assert done.failed is not None and not done.vanished and not done.full
    assert done.failed.words().startswith("step 2/2, line 11 of the Dockerfile: RUN echo one")
    assert done.failed.words().endswith("fatal: no kernel for gfx950")


@pytest.mark.parametrize("said", [b"failed to copy: unexpected EOF", b"layer does not exist"])
def test_s23_what_vanished_is_told_apart(said):
    assert outcome("", LOG + said, 1.0, DOCKERFILE).vanished
    assert outcome("", b"write /x: no space left on device", 1.0, DOCKERFILE).full


def test_an_image_is_an_image_whatever_its_log_says():
    done = outcome("sha256:1", LOG, 1.0, DOCKERFILE)
    assert (done.digest, done.failed) == ("sha256:1", None)


def test_the_client_is_one_that_has_buildkit():
    found = client_of({"docker": "28.2.2", "/usr/bin/docker": "20.10.24+dfsg1"}, {"docker": False})
    assert found == (["/usr/bin/docker", "build"], {"DOCKER_BUILDKIT": "1"})
    assert client_of({"docker": "28.2.2"}, {"docker": True})[0] == ["docker", "buildx", "build", "--load"]
    with pytest.raises(Infrastructure, match="BuildKit"):
        client_of({"docker": "28.2.2"}, {})


def test_s66_no_value_of_a_build_becomes_an_option_of_its_own():
    order = Build(Path("/ctx"), args={"X": "--privileged", "Y": "a b"}, target="t")
    argv = command(["docker", "build"], order, "/iid", {"k": "v"})
    assert "--privileged" not in argv and "--build-arg=X=--privileged" in argv and argv[-1] == "/ctx"
    assert "--network=none" in argv
