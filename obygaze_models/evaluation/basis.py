"""How the tested clips of a value relate to its training clips (the basis of the value).

The basis decides whether a value has an interval, and what the interval holds for. All texts about
a basis are defined here: those of the terminal, the page, the tables, the limits and comparisons.
docs/design/0007-calibration.md describes simulated tests of the intervals.
"""

from collections.abc import Iterable

UNSEEN = "unseen"
FILM_SEEN = "film-seen"
FILM_UNKNOWN = "film-unknown"
LEAKED = "leaked"
# From the strongest conclusion to the weakest.
IN_ORDER = (UNSEEN, FILM_SEEN, FILM_UNKNOWN, LEAKED)

_TESTED = {
    UNSEEN: "unseen {units}",
    FILM_SEEN: "further clips of training {units}",
    FILM_UNKNOWN: "unseen clips",
    LEAKED: "leaked test clips (some were used in training or selection)",
}
# What an interval of a basis holds for.
_INTERVAL_OF = {
    UNSEEN: "unseen {units} of the same kind",
    FILM_SEEN: (
        "the same experiment on other {units} that each have clips in training and in test"
    ),
}
# The interval of a saved model does not hold for a newly trained model.
_INTERVAL_OF_ONE_MODEL = {
    UNSEEN: _INTERVAL_OF[UNSEEN],
    FILM_SEEN: "further clips of other training {units} of this model",
}
_NOT_OF = {
    UNSEEN: "{units} of other kinds can differ more",
    FILM_SEEN: "results on unseen {units} can differ more",
}
_NO_INTERVAL = {
    FILM_UNKNOWN: "films are unknown, so clips of one film may be both in training and in test",
    LEAKED: "some test clips were used in training or selection (leaked)",
}


def weakest(bases: Iterable[str]) -> str:
    """Return the basis that allows the weakest conclusion; UNSEEN if `bases` is empty."""
    return max(bases, key=IN_ORDER.index, default=UNSEEN)


def has_interval(basis: str) -> bool:
    """Return whether a value of this basis can have an interval and a p-value."""
    return basis in _INTERVAL_OF


def no_interval_because(basis: str) -> str:
    """Return why values of this basis have no interval and p-value; "" if they can have both."""
    return _NO_INTERVAL.get(basis, "")


def tested_on(basis: str, units: str) -> str:
    """Return in words which clips were tested, such as `unseen films`."""
    return _TESTED[basis].format(units=units)


def interval_is_of(basis: str, units: str, *, is_of_one_model: bool = False) -> str:
    """Return what an interval holds for, or "" if values of this basis have no interval."""
    words = _INTERVAL_OF_ONE_MODEL if is_of_one_model else _INTERVAL_OF
    return words.get(basis, "").format(units=units)


def interval_is_not_of(basis: str, units: str) -> str:
    """Return what an interval does not hold for, or "" if values of this basis have no interval."""
    return _NOT_OF.get(basis, "").format(units=units)
