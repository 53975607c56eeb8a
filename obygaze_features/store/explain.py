"""Says in prose how features were made: a recipe for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from obygaze_features.store.recipe import Recipe
from obygaze_features.store.records import Plan


def explain(plan: Plan, counts: Mapping[str, int] | None = None) -> str:
    """A few sentences on what the store holds and how it was made."""
    sentences = [
        f"This store holds features of {plan.n_clips:,} clips of the manifest "
        f"{plan.manifest_name!r}, in {plan.n_blocks} blocks of {plan.block_rows} clips."
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
            f"The importer was told: {_words(value.get('told', {}))}."
        )
    backbone = dict(value["backbone"])
    name = backbone.pop("name", "?")
    sentences = [
        f"They were made by the backbone {name}" + _with(backbone) + ".",
        _weights(value["weights"]),
        f"Frames were sampled with {_words(value['sampling'])}.",
        f"Videos were decoded with {_words(value['decoder'])}.",
        f"Pixels were prepared with {_words(value['preprocessing'])}.",
        f"The recipe yields the levels {', '.join(map(str, value['levels'])) or 'none'}, "
        f"computed with {_words(value['compute'])} and stored with {_words(value['storage'])}.",
    ]
    extra = {key: value[key] for key in value if key not in _TOLD}
    if extra:
        sentences.append(f"Also recorded: {_words(extra)}.")
    return "\n".join(sentences)


_TOLD = frozenset(
    (
        "backbone",
        "weights",
        "sampling",
        "decoder",
        "preprocessing",
        "levels",
        "compute",
        "storage",
    )
)


def _counts(counts: Mapping[str, int]) -> str:
    words = [f"{n:,} {state}" for state, n in counts.items() if n]
    return f"Of the clips, {_listed(words)}." if words else ""


def _weights(weights: Mapping[str, Any]) -> str:
    if not weights:
        return "It has no weights."
    names = [f"{name} (sha256 {str(sha)[:12]}...)" for name, sha in weights.items()]
    return f"Its weights are {_listed(names)}."


def _with(rest: Mapping[str, Any]) -> str:
    return f" ({_words(rest)})" if rest else ""


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = [f"{key.replace('_', ' ')} {_words(item)}" for key, item in value.items()]
        return ", ".join(pairs) or "nothing recorded"
    if isinstance(value, list | tuple):
        return " ".join(_words(item) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
