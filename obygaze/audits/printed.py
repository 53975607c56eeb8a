"""Published values, shown next to the user's results; they are read from printed.toml."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

SABIR = "seven caption models (Sabir and Padró)"
WOLFE = "Wolfe and others (2023)"

GenderShares = tuple[float, float]


@dataclass(frozen=True)
class PublishedEffects:
    """The effect sizes that Wolfe et al. (2023) published for two attributes, by model.

    `prompts` names the set of prompts of both attributes. `x` and `y` are the groups that the paper
    compares. Each model has a value (a text) for each of `columns`; a star marks p < .05.
    """

    table: str
    prompts: str
    a: str
    b: str
    x: str
    y: str
    columns: tuple[str, ...]
    models: Mapping[str, tuple[str, ...]]

    def of_model(self, model: str) -> str | None:
        """Return the effect sizes of a model as a text, or None if the table has no such model.

        A text is, for example, "1.26* high, 1.09* low".
        """
        if model not in self.models:
            return None
        values = zip(self.models[model], self.columns, strict=True)
        return ", ".join(f"{value} {column}".strip() for value, column in values)

    def __str__(self) -> str:
        ranges = []
        for place, column in enumerate(self.columns):
            effects = [
                float(values[place].strip("*")) for values in self.models.values()
            ]
            ranges.append(f"{column} {as_range(effects)}".strip())
        return (
            f"Published in {WOLFE}, {self.table}, for {self.a} against {self.b} in "
            f"{len(self.models)} models: d {' and '.join(ranges)}, where X are {self.x} and Y are "
            f"{self.y}; * is p < .05."
        )


def published_effects() -> list[PublishedEffects]:
    """Return the effect sizes of association tests that Wolfe et al. (2023) published."""
    effects = []
    for table in _document()["eat"]:
        models = {model: tuple(values) for model, values in table["models"].items()}
        columns = tuple(table["columns"])
        effects.append(
            PublishedEffects(**{**table, "columns": columns, "models": models})
        )
    return effects


def model_of_checkpoint(checkpoint: str) -> str:
    """Return the name that the published tables of effect sizes use for a checkpoint, or ""."""
    return str(_document()["checkpoints"].get(checkpoint, ""))


def published_shares() -> dict[str, GenderShares]:
    """Return the shares of man and of woman that Sabir and Padro published for caption models."""
    of_models = _document()["ratios"]
    return {model: (row[2], row[3]) for model, row in of_models.items()}


def published_shares_of(thing: str) -> dict[str, GenderShares]:
    """Return the shares of man and of woman that Sabir and Padro published for a thing.

    The result is by caption model.
    """
    of_models = _document()["things"].get(thing, {})
    return {model: (man, woman) for model, (man, woman) in of_models.items()}


def as_range(values: Iterable[float]) -> str:
    """Return the smallest and the largest value as a text, such as "0.67 to 0.76"."""
    ordered = sorted(values)
    return f"{ordered[0]:.2f} to {ordered[-1]:.2f}"


@cache
def _document() -> dict[str, Any]:
    text = files(__package__).joinpath("printed.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
