from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.leaks import count_leak
from support.published import split_file

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.leakage import check_leaks

FILMS = {"a1": "a", "a2": "a", "a4": "a", "a9": "a", "b2": "b", "c5": "c"}


def test_by_hand() -> None:
    test = ["a1", "a4", "a2", "a9", "c5"]
    leak = count_leak(["a1", "b2"], ["a4"], test, film_of_clip=FILMS, cell="x")
    assert leak.n_test == 5
    assert (leak.in_train, leak.in_validation, leak.leaked) == (1, 1, 2)
    assert leak.clips == ("a1", "a4")
    assert leak.same_film == 2, "a2 and a9"


def test_a_clip_in_train_and_validation_leaks_once() -> None:
    leak = count_leak(["x"], ["x"], ["x", "y"])
    assert (leak.in_train, leak.in_validation, leak.leaked) == (1, 1, 1)


@settings(max_examples=60, deadline=None)
@given(*[st.sets(st.integers(0, 25)) for _ in range(3)])
def test_against_a_loop(train: set[int], validation: set[int], test: set[int]) -> None:
    film_of_clip = {str(i): f"m{i % 5}" for i in range(26)}
    leak = count_leak(
        *[map(str, part) for part in (train, validation, test)],
        film_of_clip=film_of_clip,
    )
    seen = train | validation
    fresh = [t for t in test if t not in seen]
    of_known_films = [t for t in fresh if any(s % 5 == t % 5 for s in seen)]
    assert leak.leaked == len(test) - len(fresh)
    assert leak.same_film == len(of_known_films)


class TestCheck:
    clean = count_leak(["a1"], [], ["a2"], cell="clean")
    bad = count_leak(["a1", "a2"], [], ["a2", "a4"], cell="bad")
    worse = count_leak(["a1", "a2"], [], ["a2"], cell="worse")

    def test_clean(self) -> None:
        assert check_leaks([self.clean]) == [self.clean]

    def test_a_leak_is_an_error(self) -> None:
        with pytest.raises(FixInput) as error:
            check_leaks([self.clean, self.bad, self.worse])
        assert "2 of 3 cells" in error.value.message
        assert "worse, 1 of 1" in str(error.value)
        assert [line.split(":")[0] for line in error.value.details] == ["bad", "worse"]
        assert len(str(error.value).splitlines()) == 3

    def test_unless_allowed(self) -> None:
        assert len(check_leaks([self.bad], allowed=True)) == 1

    def test_a_line_for_the_report(self) -> None:
        leak = count_leak(["a1"], ["a4"], ["a2", "a4"], concepts=["a2"], cell="fold 3")
        assert leak.text == (
            "fold 3: 2 of 2 test clips leaked (0 in train, 1 in validation), "
            "1 used to find concept vectors"
        )


class TestPublished:
    """Each published file has folds of its own, so the cells between two files leak."""

    @pytest.mark.parametrize(
        ("trained_on", "leaked"), [("HN_S", 54), ("EN_S", 67), ("ENHN_S", 0)]
    )
    def test_the_105_test_clips_of_enhn_s(self, trained_on: str, leaked: int) -> None:
        test = split_file("02_ENHN_S.csv").in_folds(9)
        table = split_file(f"02_{trained_on}.csv")
        leak = count_leak(table.in_folds(*range(1, 9)), table.in_folds(0), test)
        assert (leak.leaked, leak.n_test) == (leaked, 105)
        assert leak.in_train + leak.in_validation == leaked

    def test_random_folds_have_the_films_of_all_test_clips_in_training(self) -> None:
        table = split_file("02_ENHN_S.csv")
        leak = count_leak(
            table.in_folds(*range(9)),
            [],
            table.in_folds(9),
            film_of_clip=dict(zip(table.ids, table.films, strict=True)),
            cell="ENHN_S",
        )
        assert leak.same_film == 105, "all twelve films are on both sides"
