"""The card of a store: a README that says what it is, how it was made, and what is not inside."""

from __future__ import annotations

from collections.abc import Mapping

from obygaze_features.core.console import human
from obygaze_features.store.format.explain import explain
from obygaze_features.store.format.records import Plan

# Licences the hub has a name of its own for, in its spelling.
HUB_LICENCES = frozenset(
    (
        "apache-2.0",
        "bsd-3-clause",
        "cc-by-4.0",
        "cc-by-nc-4.0",
        "cc-by-nc-nd-4.0",
        "cc-by-nc-sa-4.0",
        "cc-by-sa-4.0",
        "cc0-1.0",
        "mit",
        "odbl",
    )
)


def card_text(plan: Plan, counts: Mapping[str, int]) -> str:
    """The card, with the front matter the hub reads."""
    parts = [
        _front_matter(plan),
        f"# Features of {plan.manifest_name}: {plan.recipe.title}",
        explain(plan, counts),
        _arrays(plan),
        _reading(),
        _limits(plan),
        "## What is not inside\n\nNo film, no image, no sound and no subtitle is part of this "
        "store: it holds numbers computed from clips, and the ids of the clips.",
        f"## Licence and citation\n\nLicence: {plan.licence or 'not stated'}\n\n"
        f"{plan.citation or 'No citation was given.'}",
        f"Fingerprint of the recipe: `{plan.recipe.fingerprint}`",
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _front_matter(plan: Plan) -> str:
    tags = ["video-features", "obygaze-store"]
    known = plan.licence.lower() if plan.licence.lower() in HUB_LICENCES else ""
    lines = ["---", f"license: {known or ('other' if plan.licence else 'unknown')}"]
    if plan.licence and not known:
        lines.append(f"license_name: {_quoted(plan.licence)}")
    lines += [f"pretty_name: {_quoted(f'{plan.manifest_name} {plan.recipe.title}')}", "tags:"]
    return "\n".join([*lines, *(f"  - {tag}" for tag in tags), "---"])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'


def _arrays(plan: Plan) -> str:
    lines = ["## Arrays", "", "| array | one clip | type | all clips |", "|---|---|---|---|"]
    for spec in plan.arrays:
        shape = " x ".join(str(size) for size in spec.tail_shape) or "one number"
        total = human(spec.row_bytes * plan.n_clips)
        lines.append(f"| `{spec.name}` | {shape} | {spec.dtype} | {total} |")
    return "\n".join(lines)


def _limits(plan: Plan) -> str:
    made = (
        "How these numbers were made is not known, so they can be neither made again nor compared "
        "with others."
        if plan.recipe.is_unknown
        else "They can be compared with features of the same fingerprint only."
    )
    return (
        "## Limits\n\nFeatures are what a model made of pixels. They carry what that model learned "
        "from its own data, stereotypes of gender and of bodies included, and say nothing about "
        f"the people in a film. {made} A clip that failed has no features: it is absent, not zero."
    )


def _reading() -> str:
    return (
        "## Reading it\n\n```python\nfrom obygaze_features.store import open_store\n\n"
        'store = open_store("this-folder")\n'
        'features = store.matrix(store.levels[0], missing="drop")\n```\n\n'
        "`data.zarr` is an ordinary Zarr v3 group; `clips.csv` names the clip of each row. "
        "Rows that failed hold NaN; `seal.json` says which and why."
    )
