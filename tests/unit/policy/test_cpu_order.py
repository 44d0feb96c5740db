"""On a processor the playbook proposes what it always proposed, in the same order: `cpu-order.txt` holds it."""

from pathlib import Path

import pytest
from day0.agent.policy.actions import Finish
from day0.agent.policy.guard import admit
from day0.agent.policy.playbook import Playbook
from day0.runs.facts import FailureClass

TOLD = Path(__file__).with_name("cpu-order.txt")
ATTEMPTS = 40


def broken(candidate):
    return FailureClass.CRASHED if candidate.flags.get("dtype") == "float32" else None


def sequence(node, attempts=ATTEMPTS):
    """One line per action: axis, changes and promise."""
    lines = []
    while len(node.attempts) <= attempts:
        for action in Playbook(patience=1000).decide(node.view()).actions:
            if isinstance(action, Finish):
                return [*lines, f"finish: {action.reason}"]
            changes = " ".join(f"{k}={v}" for k, v in sorted({**action.flags, **action.env}.items()))
            lines.append(f"{action.parent} {action.axis}: {changes} {action.expected_gain:+.4f}")
            node.climb(admit(action, node.view()), action.parent, "playbook")
    return lines


CASES = {"quiet": {"noise": 0.0}, "noisy": {"noise": 0.02}, "broken": {"noise": 0.01, "fails": broken}}


def told(make_node, name):
    return sequence(make_node(**CASES[name]))


@pytest.mark.parametrize("name", CASES)
def test_the_order_on_a_processor_is_the_recorded_one(make_node, name):
    recorded = TOLD.read_text(encoding="utf-8").split("# ")
    expected = next(part for part in recorded if part.startswith(f"{name}\n"))
    assert told(make_node, name) == expected.strip().splitlines()[1:]
