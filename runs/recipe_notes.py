"""What a recipe tells people: the lines above its sections. Pure text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from day0.runs.recipe import Figure, Recipe

NOTES = {
    "replay": "measures every figure again from this file alone and checks it against its range",
    "engine": "the build is pinned by digest: another build is another result",
    "model": "the revision is a hub commit or the hash of the folder's content",
    "configuration": "flags as the engine's --help spells them, without dashes; patches and tables by digest",
    "patches": "changes to the engine's source, whole; before and after are sha256 of each file",
    "patched": "true: the image as it was shipped can't run this; engine pull requests first, then cookbook, then this",
    "waiver": "what is patched, why, where it stands upstream and when it goes: the form that InferenceX asks for",
    "tables": "rows of tuned kernels, whole; the variable names the file to the engine",
    "launch": "the line as it was run; {port}, {model} and {host} differ from boot to boot",
    "figures": "value, and the range in which a replay counts as the same; all throughputs are per whole node",
    "conditions": "what stands beside each figure: the source of the prompts, and how the answers came; null = unknown",
    "gain": "over the baseline, interleaved boots on the same arrivals: 0.1 = 10 % more; lower: one-sided 95 % bound",
    "accuracy": "shares of right answers on the same questions, at the load that is served; margin, difference and its "
    "one-sided 95 % bound as shares: 0.01 = one point",
    "noise": "relative s.d. of a knee between boots of one configuration: what gains and ranges stand on",
    "stability": "under load for long, in node seconds; memory in bytes over all accelerators, null = unknown",
    "waterfall": "the accepted changes in their order: key -> [before, after]",
    "workload": "the traffic that it was measured with",
    "target": "the class of node, and how long a figure was watched",
    "node": "the node as it was found; null = unknown",
    "provenance": "where it comes from",
}
WIDTH = 110


def notes(section: str) -> str:
    """The comment above a section; "" for none."""
    return NOTES.get(section, "")


def headline(recipe: Recipe) -> str:
    """The comment at the top: what it is, what was measured, how to use it."""
    lines = [f"{recipe.model.id} on {recipe.target.name}, workload {recipe.workload.name}"]
    lines += [_figure(figure) for figure in recipe.figures]
    lines += [_conditions(recipe)] if recipe.conditions is not None else []
    lines.append(_gain(recipe))
    lines += [_noise(recipe)] if recipe.noise is not None else []
    if recipe.patches:
        lines.append(f"patched: depends on {len(recipe.patches)} changes to the engine's source (see patches, waiver)")
    if recipe.accuracy is not None:
        against = f" against {recipe.accuracy.reference}" if recipe.accuracy.reference else ""
        lines.append(f"answers: {recipe.accuracy.label}{against}")
    lines += ["", f"again:   {recipe.replay}", "by hand: " + " ".join(map(_quoted, recipe.launch.argv))]
    return "\n".join(f"# {_one_line(line)}".rstrip() for line in lines)


def _figure(figure: Figure) -> str:
    low = "" if figure.low is None else f"{figure.low:.4g}"
    high = "" if figure.high is None else f"{figure.high:.4g}"
    span = f" ({low or '-'} to {high or '-'})" if low or high else ""
    label = f" [{figure.label}]" if figure.label else ""
    other = ""
    if figure.interval is not None:
        ends = ["open" if side is None else f"{side:.4g}" for side in figure.interval]
        other = f", over arrivals {ends[0]} to {ends[1]} (90 %)"
    return f"  {figure.name}: {figure.value:.4g} {figure.unit}{span}{other}{label}"


def _conditions(recipe: Recipe) -> str:
    seen = recipe.conditions
    if seen is None:
        return ""
    accepts = "no speculation" if seen.acceptance_length is None else f"acceptance length {seen.acceptance_length:.3g}"
    forced = "unknown" if seen.forced_share is None else f"{seen.forced_share:.1%}"
    return (
        f"  measured with {seen.text} at temperature {seen.temperature:g}, {accepts}; "
        f"output forced past its end: {forced}"
    )


def _gain(recipe: Recipe) -> str:
    gain = recipe.gain
    if gain is None:
        return "no configuration was better than the defaults: these are the defaults"
    return (
        f"{gain.gain:+.1%} over {gain.baseline} (at least {gain.lower:+.1%} with 95 % confidence, "
        f"{gain.pairs} pairs of boots; verdict: better)"
    )


def _noise(recipe: Recipe) -> str:
    noise = recipe.noise
    if noise is None:
        return ""
    where = (
        f"assumed: {noise.why_none}" if noise.spread is None else f"{noise.boots} boots of the baseline on this node"
    )
    return f"noise floor {noise.sd:.1%} ({where})"


def _quoted(word: str) -> str:
    import shlex

    return word if word in {"{port}", "{model}", "{host}"} else shlex.quote(word)


def _one_line(text: str) -> str:
    """Names come from outside: nothing in a comment may end it."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
