"""What a value and its interval are of, from what trained and what was tested.

This is the one place that says it: terminal, page, tables, limits and comparisons take their words
from here. What the simulations of docs/design/0007-calibration.md hold for is the same experiment
with other films on both sides, in training and in testing.
"""

from collections.abc import Iterable

UNSEEN = "unseen"
FILM_SEEN = "film-seen"
FILM_UNKNOWN = "film-unknown"
LEAKED = "leaked"
# From the value that says most to the one that says least.
IN_ORDER = (UNSEEN, FILM_SEEN, FILM_UNKNOWN, LEAKED)

_TESTED = {
    UNSEEN: "{units} it has not seen",
    FILM_SEEN: "further clips of {units} that trained",
    FILM_UNKNOWN: "clips it has not seen",
    LEAKED: "clips of which some trained or chose (leaked)",
}
_INTERVAL_OF = {
    UNSEEN: "other {units} of the same kind, each tested unseen",
    FILM_SEEN: "the same experiment with other {units} on both sides, in training and in testing",
}
# The interval of one saved model says nothing of another training.
_INTERVAL_OF_ONE_MODEL = {
    UNSEEN: _INTERVAL_OF[UNSEEN],
    FILM_SEEN: "the same model with other {units} of its training",
}
_NOT_OF = {
    UNSEEN: "other kinds of {units} can differ more",
    FILM_SEEN: "nothing is said of {units} that did not train",
}
_NO_INTERVAL = {
    FILM_UNKNOWN: "films are not known, so that clips of one film may be on both sides of a split",
    LEAKED: "test clips trained or chose (leaked)",
}


def weakest(bases: Iterable[str]) -> str:
    """Return the basis that says least; of none, that of unseen films."""
    return max(bases, key=IN_ORDER.index, default=UNSEEN)


def has_interval(basis: str) -> bool:
    """Return whether a value of this basis can have an interval, a p and a place in a family."""
    return basis in _INTERVAL_OF


def no_interval_because(basis: str) -> str:
    """Return why no value of this basis has an interval and a p; "" if it can have both."""
    return _NO_INTERVAL.get(basis, "")


def tested_on(basis: str, units: str) -> str:
    """Return what a value of this basis is of, such as `films it has not seen`."""
    return _TESTED[basis].format(units=units)


def interval_is_of(basis: str, units: str, *, is_of_one_model: bool = False) -> str:
    """Return what an interval of this basis is of; "" where there is none."""
    words = _INTERVAL_OF_ONE_MODEL if is_of_one_model else _INTERVAL_OF
    return words.get(basis, "").format(units=units)


def interval_is_not_of(basis: str, units: str) -> str:
    """Return what an interval of this basis leaves open; "" where there is none."""
    return _NOT_OF.get(basis, "").format(units=units)
