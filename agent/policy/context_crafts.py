"""What an LLM gets to see of repairs, patches, tuned kernels and images; parts of the context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from day0.agent.policy.crafts import codemods_for
from day0.agent.policy.trials import AUTHOR
from day0.agent.policy.untrusted import fence, line

if TYPE_CHECKING:
    from day0.agent.policy.base import RunView
    from day0.runs.schema import Attempt


def made(view: RunView) -> str:
    """Which repairs there are, what was made in this run, and which images stand ready."""
    from day0.tools.codemods import CODEMODS

    rows = ["# What can be made for a candidate, and what was"]
    rows += [f"- codemod {name}: {line(mod.title, 120)} ({line(mod.upstream, 60)})" for name, mod in CODEMODS.items()]
    rows.append("- tune: rows for kernels that a boot ran on a fallback; a table serves its own layout only")
    rows.append(
        "- diff: your own patch of engine source, applied with git and reviewed by a person before it leaves here"
    )
    rows += [f"- image {line(digest, 80)}: {line(name, 100)}" for digest, name in sorted(view.images.items())]
    for digest, patch in sorted(view.patches.items()):
        files = ", ".join(line(name, 100) for name in sorted(patch.after))
        told = f"made: patch {digest[7:19]} by {line(patch.author, 60)}, changes {files}"
        rows.append(fence(f"{told}; {patch.title}", "a patch of this run", 400))
    for digest, table in sorted(view.tables.items()):
        rows.append(f"- made: table {digest[7:19]}, {table.rows} rows for {line(table.variable, 60)}")
    return "\n".join(rows)


def fallbacks(attempt: Attempt, view: RunView) -> str:
    """What a row of the table of attempts adds: the known issue of a failure, kernels that ran on a fallback."""
    failed = next((v for v in attempt.verdicts if not v.passed), None)
    text = ""
    if failed is not None and failed.issue:
        mends = codemods_for(failed.issue)
        text += f"; known issue {line(failed.issue, 60)}" + (f", mended by codemod {', '.join(mends)}" if mends else "")
    boot = view.boots.get(attempt.id)
    if boot is not None and boot.fallback_lines:
        text += f"; {boot.fallback_lines} log lines say that a kernel ran untuned or on a fallback"
    return text


def explained(attempt: Attempt, view: RunView) -> list[str]:
    """What holds an attempt back, with the experiment that would lift it; the first is what to act on."""
    rows = []
    for found in attempt.diagnoses(view.request.workloads[0].name):
        flags = ", ".join(f"--{name} {value}" for name, value in found.flags.items())
        lift = f" Would lift it: {found.experiment}{f' ({flags})' if flags else ''}." if found.experiment else ""
        rows.append(line(f"Held back by: {found.name}: {found.evidence}.{lift}", 500))
    return rows


def named(key: str, value: object, view: RunView) -> object:
    """Digests of patches as the names of who made what; everything else as it is."""
    if key != "patches" or not isinstance(value, tuple):
        return value
    known = [view.patches[d].author.removeprefix(AUTHOR) if d in view.patches else str(d)[:19] for d in value]
    return " ".join(known) or None
