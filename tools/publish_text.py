"""The words under which a patch leaves: branch, commit message, pull request, and the waiver of a patched recipe.

The evidence, titles of proposed diffs and log lines come from models and machines: whatever of them goes into a text
is cut, stripped of control characters, and can neither close its fence, nor mention a person, nor close an issue.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence

from day0.runs.evidence import Evidence
from day0.runs.patches import Patch
from day0.runs.recipe import Recipe
from day0.runs.values import sha256
from day0.tools.forge.base import Draft
from day0.tools.publish_git import Person

LABELS = ("amd", "day0")
LONGEST_LINE, LONGEST_FENCE = 300, 2_000
_MARKER = re.compile(r"<!-- day0 patch=(sha256:[0-9a-f]{64}) text=(sha256:[0-9a-f]{64}) -->")
_MENTION = re.compile(r"@(?=\w)")
_NUMBER = re.compile(r"#(?=\d)")
_CITED = re.compile(r"([\w.-]+)(?: PR|#) ?#?(\d+)")
_CLOSES = re.compile(r"\b(clos|fix|resolv)(e[sd]?|ed|es)?\b(?=:?\s+(?:[\w./-]*#|https?:))", re.I)
OWNERS = {"sglang": "sgl-project/sglang", "aiter": "ROCm/aiter"}
"""Engine -> its repository; the engine is the first folder of a patch's paths."""


def engine_of(patch: Patch) -> tuple[str, int]:
    """(engine, leading folders of its paths that are not the repository's); no engine where it spans several."""
    heads = {path.split("/")[0] for path in patch.after}
    if heads <= {"python", "sgl-kernel"}:
        return "sglang", 0
    return (next(iter(heads)), 1) if len(heads) == 1 else ("", 0)


def branch(patch: Patch) -> str:
    """The same content always goes to the same branch."""
    return f"day0/{patch.name}-{patch.short}"


def line(text: str, limit: int = LONGEST_LINE) -> str:
    """One line that mentions nobody and closes nothing."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    flat = _NUMBER.sub("no. ", _MENTION.sub("", _CLOSES.sub(r"\1-", flat)))
    flat = flat.replace("<", "‹").replace(">", "›") if "<!--" in flat or "-->" in flat else flat
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def cell(text: str) -> str:
    """One cell of a table: code, so that nothing in it is markup."""
    flat = line(text, 200).replace("|", "¦").replace("`", "'")
    return f"`{flat}`" if flat else ""


def fenced(text: str) -> str:
    """A block that its text can't leave."""
    kept = "\n".join("".join(c if c.isprintable() or c == "\t" else " " for c in row) for row in text.splitlines())
    kept = kept[:LONGEST_FENCE]
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", kept)), default=0))
    return f"{ticks}text\n{kept}\n{ticks}"


def title(patch: Patch) -> str:
    """One line, as the engine's repositories write it."""
    return f"[AMD] {line(patch.title, 120)}"


def message(patch: Patch, who: Person) -> str:
    """The commit's message: from the patch and who signs alone, so that it never differs between two tries."""
    parts = [title(patch), ""]
    if patch.upstream:
        parts += [f"Upstream's own change of the same kind: {line(patch.upstream)}.", ""]
    parts += [f"Day0-Patch: {patch.digest()}", f"Signed-off-by: {who}"]
    return "\n".join(parts) + "\n"


def draft(
    patch: Patch,
    evidence: Sequence[Evidence],
    *,
    base: str,
    who: Person,
    exact: bool,
    redact: Callable[[str], str],
    note: str = "",
) -> Draft:
    """The pull request. `note` is what upstream is known to have about it; `redact` sees every text of it."""
    body = redact(_body(patch, evidence, who=who, exact=exact, note=note))
    marker = f"<!-- day0 patch={patch.digest()} text={sha256(body)} -->"
    return Draft(title=redact(title(patch)), body=f"{body}\n{marker}", branch=branch(patch), base=base, labels=LABELS)


def _body(patch: Patch, evidence: Sequence[Evidence], *, who: Person, exact: bool, note: str) -> str:
    parts = [f"{line(patch.title, 120)}.", "", "### Why", ""]
    parts += ["A server without this change said:", "", fenced(patch.why), ""] if patch.why else ["See the diff.", ""]
    parts += [
        "### What changes",
        "",
        *(f"- `{path.split('/', engine_of(patch)[1])[-1]}`" for path in sorted(patch.after)),
        "",
        "### Evidence",
        "",
    ]
    for told in evidence:
        parts += _table(told)
    if not evidence:
        parts += ["No run is recorded with it.", ""]
    if patch.upstream or note:
        cited = ". ".join(
            filter(None, (f"Of the same kind: {line(patch.upstream)}" if patch.upstream else "", line(note)))
        )
        parts += ["### Upstream", "", f"{cited}.", ""]
    moved = "" if exact else " Its hunks stand at other lines here than where they were made, with the same context."
    parts += [
        "### Provenance",
        "",
        f"Made by day0 (`{line(patch.author, 60)}`) against {cell(patch.build)}; {line(who.name, 80)} read and "
        f"approved exactly this content: `{patch.digest()}`.{moved}",
    ]
    return "\n".join(parts) + "\n"


def _table(told: Evidence) -> list[str]:
    label = " **All figures are simulated.**" if told.simulated else ""
    out = [f"{cell(told.model)} on {cell(told.target)}, attempts {', '.join(map(cell, told.attempts))}.{label}", ""]
    out += ["| | without | with this change |", "|---|---|---|"]
    out += [f"| {line(row.what, 60)} | {cell(row.before)} | {cell(row.after)} |" for row in told.rows]
    if told.engaged:
        out += [
            "",
            "The change took effect: the log of a boot with it was searched for these texts, and they are gone.",
            "",
        ]
        out += [f"- {cell(text)}" for text in told.engaged]
    return [*out, ""]


def ours(body: str) -> tuple[str, bool] | None:
    """(patch digest, whether the text is still as day0 wrote it) of a pull request's text; None: it is not day0's."""
    found = _MARKER.search(body)
    if found is None:
        return None
    written = body[: found.start()].removesuffix("\n")
    return found[1], sha256(written) == found[2] and not body[found.end() :].strip()


def waiver(patches: Sequence[Patch], *, pulls: Sequence[str], model: str) -> str:
    """What InferenceX asks of a submission that patches its engine (docs/waiver/NUMBER.md of its repository).

    What is patched, why the image as it was shipped can't run this, the upstream pull request, and when it goes.
    """
    out = [f"# Waiver: {line(model, 120)} runs with {len(patches)} changes to its engine", ""]
    for number, patch in enumerate(patches):
        link = pulls[number] if number < len(pulls) and pulls[number] else "not opened yet"
        out += [
            f"## {line(patch.title, 120)}",
            "",
            f"- What is patched: {', '.join(f'`{path}`' for path in sorted(patch.after))} of {cell(patch.build)}, "
            f"content `{patch.digest()}`.",
            f"- Why the image can't run this as it was shipped: {cell(patch.why) or 'see the pull request'}",
            f"- Upstream: {link}" + (f" (of the same kind: {line(patch.upstream)})" if patch.upstream else ""),
            "- Removal: with the first release that has this change; the recipe is then measured again on that image "
            "without the patch, and this waiver is deleted.",
            "",
        ]
    return "\n".join(out)


def cookbook(recipe: Recipe, pulls: Sequence[str]) -> str:
    """The entry for the engine's cookbook, which comes after the engine's pull requests and before any benchmark."""
    argv = " ".join(
        word if word in {"{port}", "{model}", "{host}"} else shlex.quote(word) for word in recipe.launch.argv
    )
    figures = [
        f"| {figure.name} | {figure.value:.4g} {figure.unit} | {figure.label or 'measured'} |"
        for figure in recipe.figures
    ]
    needs = [
        f"- {line(patch.title, 120)}: {link or line(patch.upstream) or 'no pull request yet'}"
        for patch, link in zip(recipe.patches, pulls, strict=True)
    ]
    env = [f"{name}={shlex.quote(value)}" for name, value in sorted(recipe.configuration.env.items())]
    return "\n".join(
        [
            f"# {line(recipe.model.id, 120)} on {line(recipe.target.name)}, workload {line(recipe.workload.name)}",
            "",
            "This entry comes after the engine's pull requests below are merged, and before any benchmark submission.",
            "",
            *needs,
            "",
            f"Image: {cell(recipe.engine.build)} (version {cell(recipe.engine.version)})",
            "",
            "```",
            *env,
            argv,
            "```",
            "",
            "| figure | value | |",
            "|---|---|---|",
            *figures,
            "",
        ]
    )


def cited(upstream: str) -> tuple[str, int] | None:
    """(`owner/name`, number) of a pull request that a patch names, e.g. `sglang PR 30265`."""
    found = _CITED.search(upstream)
    owner = OWNERS.get(found[1].lower()) if found else None
    return (owner, int(found[2])) if found and owner else None


__all__ = ["Draft", "branch", "cited", "cookbook", "draft", "engine_of", "message", "ours", "title", "waiver"]
