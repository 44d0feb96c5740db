"""A patch's own test: a program that never enters the candidate, run in a `job` sandbox before anything boots.

It sees the engine as the candidate's image has it, no network, no weights and nothing of day0.
"""

from __future__ import annotations

from day0.runs.errors import Timeout
from day0.runs.values import Frozen
from day0.sandboxes.base import Node
from day0.sandboxes.spec import SandboxSpec

NAME = "patch_test.py"
LIMIT_S = 300.0
MEMORY_BYTES = 8 << 30
SAID = 300
"""characters of its last line that are kept"""


class Tested(Frozen):
    """How a test ended; `said` is its last line, untrusted text."""

    passed: bool
    said: str = ""


def run(node: Node, environment: str, test: str, attempt: str) -> Tested:
    """Runs the program `test` with the environment's Python; exit code 0 is a pass.

    Raises `Infrastructure`, `NodeLost`, `Cancelled`.
    """
    spec = SandboxSpec(
        role="job", environment=environment, attempt=attempt, network="none", memory_bytes=MEMORY_BYTES
    )  # fmt: skip
    with node.open(spec) as sandbox:
        sandbox.write(NAME, test.encode())
        process = sandbox.spawn(["python", NAME])
        try:
            code = process.wait(LIMIT_S).code
        except Timeout:
            return Tested(passed=False, said=f"it was not done after {LIMIT_S:.0f} s")
        finally:
            process.stop(1.0)
        lines = process.output(0, 1 << 20).decode(errors="replace").strip().splitlines()
    return Tested(passed=code == 0, said=lines[-1][:SAID] if lines else f"exit code {code}")


__all__ = ["Tested", "run"]
