"""What a worker does that plans, fills and seals a store, and what the store must hold then."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from obygaze_features.core.errors import AlreadyThere, FixInput, Mismatch, NotFound
from obygaze_features.store.atomic_files import read_seal, replaced_store_path
from obygaze_features.store.filling import Filling, remove_leftover
from obygaze_features.store.sealing import seal
from support.filled_stores import (
    N_BLOCKS,
    N_ROWS,
    expected_rows,
    fails_at_first,
    fill,
    plan,
    values_of,
)
from support.written_stores import check_store

N_MORE = 120
VALUES = values_of(n_rows=N_MORE)
FIRST_VALUES = {name: values[:N_ROWS] for name, values in VALUES.items()}


def first_life(target: Path, start: int = 0) -> None:
    """Plan, fill and seal a store, as a command does; a store that is there ends it."""
    with suppress(AlreadyThere):
        filling = plan(target)
        fill_and_seal(filling, start, fails_at_first)


def change_life(target: Path, start: int = 0) -> None:
    """Compute the failed rows again and add clips; typed again, it ends with one sentence."""
    # What a killed process has left.
    remove_leftover(target)
    with suppress(AlreadyThere, Mismatch):
        try:
            replaces = Filling.open(target).plan.replaces
        except NotFound:
            # The seal first: who sees the seal of a changed store sees the store before, too.
            replaces = read_seal(target)
            if list(target.parent.glob(f"{target.name}.before-*")):
                return
        computed = [
            number >= N_ROWS or fails_at_first(number) for number in range(N_MORE)
        ]
        filling = plan(target, N_MORE, replaces=replaces, computed=computed)
        fill_and_seal(filling, start, lambda number: False)


def fill_and_seal(filling: Filling, start: int, fails: Callable[[int], bool]) -> None:
    """Compute what is missing, then seal; again where a block was found damaged."""
    while True:
        fill(filling, VALUES, start % N_BLOCKS, fails)
        try:
            seal(filling.target)
        except FixInput:
            continue
        return


LIVES: dict[str, Callable[[Path, int], None]] = {
    "first": first_life,
    "change": change_life,
}


def check_first(target: Path) -> None:
    check_store(target, expected_rows(), FIRST_VALUES)


def check_changed(target: Path) -> None:
    """The store of a change is right, and so is the one before."""
    rows = expected_rows(N_MORE, fails=lambda number: False)
    check_store(target, rows, VALUES)
    (before,) = target.parent.glob(f"{target.name}.before-*")
    check_first(before)
    assert before == replaced_store_path(target, read_seal(before))


def check_names(target: Path) -> None:
    """No name without a dot has something half-made."""
    for path in target.parent.iterdir():
        if path.name == target.name or ".before-" in path.name:
            assert (path / "store.json").exists(), path
        elif not path.name.startswith("."):
            assert path.name == f"{target.name}.next", path


CHECKS = {"first": check_first, "change": check_changed}
