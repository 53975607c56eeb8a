"""Values that papers print, to show beside a user's own; the file printed.toml has them."""

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
class PrintedEffects:
    """The effect sizes that a table of a paper prints for two attributes, by model.

    `prompts` is the set of prompts with both attributes; `x` and `y` are the groups of the paper.
    A model has a text for each of `columns`, with a star where the paper calls it significant.
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
        """Return the effect sizes of a model, such as "1.26* high, 1.09* low"; None without any."""
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
            f"{WOLFE}, {self.table}, print for {self.a} against {self.b} in "
            f"{len(self.models)} models: d {' and '.join(ranges)}, where X are {self.x} and Y are "
            f"{self.y}; * is p < .05."
        )


def printed_effects() -> list[PrintedEffects]:
    """Return the effect sizes of association tests that papers print."""
    effects = []
    for table in _document()["eat"]:
        models = {model: tuple(values) for model, values in table["models"].items()}
        columns = tuple(table["columns"])
        effects.append(
            PrintedEffects(**{**table, "columns": columns, "models": models})
        )
    return effects


def model_of_checkpoint(checkpoint: str) -> str:
    """Return the name that tables of effect sizes have for a checkpoint; "" without one."""
    return str(_document()["checkpoints"].get(checkpoint, ""))


def printed_shares() -> dict[str, GenderShares]:
    """Return the shares of captions of man and of woman that are printed for each caption model."""
    of_models = _document()["ratios"]
    return {model: (row[2], row[3]) for model, row in of_models.items()}


def printed_shares_beside(thing: str) -> dict[str, GenderShares]:
    """Return the shares of man and of woman that are printed for a thing, by caption model."""
    of_models = _document()["things"].get(thing, {})
    return {model: (man, woman) for model, (man, woman) in of_models.items()}


def as_range(values: Iterable[float]) -> str:
    """Return the smallest and the largest of some values, such as "0.67 to 0.76"."""
    ordered = sorted(values)
    return f"{ordered[0]:.2f} to {ordered[-1]:.2f}"


@cache
def _document() -> dict[str, Any]:
    text = files(__package__).joinpath("printed.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
