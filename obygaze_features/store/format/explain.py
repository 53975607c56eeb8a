"""Says in prose how features were made: a recipe for people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from obygaze_features.core.console import count
from obygaze_features.store.format.recipe import SECTIONS, UNVERIFIED, Recipe
from obygaze_features.store.format.records import Plan

_HASH = re.compile(r"[0-9a-f]{40,64}")


def explain(plan: Plan, counts: Mapping[str, int] | None = None) -> str:
    """A few sentences on what the store holds and how it was made."""
    sentences = [
        f"This store holds features of {plan.n_clips:,} clips of the manifest "
        f"{plan.manifest_name!r}, in {count(plan.n_blocks, 'block')} of {plan.block_rows} clips."
    ]
    if counts:
        sentences.append(_counts(counts))
    return " ".join(sentences) + "\n\n" + explain_recipe(plan.recipe)


def explain_recipe(recipe: Recipe) -> str:
    """How the numbers came about, one sentence a section."""
    value = recipe.to_dict()
    if recipe.is_unknown:
        return (
            f"How they were made is not known: they were imported from {value.get('source', '?')}. "
            f"The importer was told: {_words(value.get('told', {})) or 'nothing'}."
        )
    sentences = [
        f"They were made by {_named(_claimed(value['backbone']), 'the backbone ')}.",
        _weights(value["weights"], value["backbone"].get(UNVERIFIED, "")),
        _sampling(value["sampling"]),
        f"Videos were decoded by {_named(value['decoder'])}.",
        f"Pixels were prepared with {_words(value['preprocessing'])}.",
        f"The recipe yields the levels {_listed([str(level) for level in value['levels']])}, "
        f"computed with {_words(value['compute'])} and stored as {_words(value['storage'])}.",
    ]
    extra = {key: value[key] for key in value if key not in SECTIONS}
    if extra:
        sentences.append(f"Also recorded: {_words(extra)}.")
    return "\n".join(sentences)


def _counts(counts: Mapping[str, int]) -> str:
    words = [f"{n:,} {state}" for state, n in counts.items() if n]
    return f"Of the clips, {_listed(words)}." if words else ""


def _named(section: Mapping[str, Any], article: str = "") -> str:
    rest = {key: value for key, value in section.items() if key != "name"}
    told = _words(rest)
    return f"{article}{section.get('name', 'unknown')}" + (f" ({told})" if told else "")


def _claimed(backbone: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of a backbone; what its weights may be is said with the weights."""
    return {key: value for key, value in backbone.items() if key != UNVERIFIED}


def _weights(weights: Mapping[str, Any], unverified: str) -> str:
    if not weights:
        return "It has no weights."
    named = [f"{name} (sha256 {_word(sha)})" for name, sha in weights.items()]
    doubt = f"; they were not verified to be {unverified}" if unverified else ""
    return f"Its weights are {_listed(named)}{doubt}."


def _sampling(sampling: Mapping[str, Any]) -> str:
    rest = _words({key: sampling[key] for key in sampling if key not in ("frames", "rule")})
    frames = f"{sampling.get('frames', 'Some')} frames of each clip were taken"
    rule = f" by the rule {sampling['rule']}" if "rule" in sampling else ""
    return f"{frames}{rule}{f', with {rest}' if rest else ''}."


def _words(section: Mapping[str, Any]) -> str:
    """What a section says, keys and values; what is empty says nothing."""
    pairs = [(key.replace("_", " "), value) for key, value in section.items()]
    told = [(key, value) for key, value in pairs if value not in ("", None, {}, [])]
    return ", ".join(
        f"{key} ({_words(value)})" if isinstance(value, Mapping) else f"{key} {_word(value)}"
        for key, value in told
    )


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        sign = " x " if all(isinstance(item, int) for item in value) else " "
        return sign.join(_word(item) for item in value)
    text = str(value)
    return text[:12] + "..." if _HASH.fullmatch(text) else text


def _listed(words: list[str]) -> str:
    if not words:
        return "none"
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
