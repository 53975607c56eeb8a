import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from obygaze_features.core.errors import FixInput
from obygaze_models.evaluation.leakage import Leak, check_leaks, find_leak

ROWS = st.lists(st.integers(0, 25), unique=True)


@settings(max_examples=25, deadline=None)
@given(*[ROWS] * 4, *[st.lists(st.integers(-1, 4), min_size=26, max_size=26)] * 2)
def test_against_a_loop(train, validation, test, concepts, copies, films) -> None:
    """Clips of one number have the same features, or film; -1 is of no other, or not known."""
    rows = [
        np.array(part, dtype=np.intp) for part in (train, validation, test, concepts)
    ]
    leak = find_leak(*rows, np.array(copies), np.array(films))
    seen = {*train, *validation, *concepts}
    assert leak.is_leaked.tolist() == [clip in seen for clip in test]
    copied = {copies[clip] for clip in seen} - {-1}
    expected = [clip not in seen and copies[clip] in copied for clip in test]
    assert leak.is_copy.tolist() == expected
    words = []
    for clip, is_copy in zip(test, expected, strict=True):
        word = "film" if films[clip] in {films[other] for other in seen} else "unseen"
        word = "unknown" if films[clip] == -1 else word
        words.append("clip" if clip in seen or is_copy else word)
    assert leak.seen.tolist() == words


def leak_between(train: list[int], test: list[int], cell: str) -> Leak:
    rows = [np.array(part, dtype=np.intp) for part in (train, [], test, [])]
    nothing_known = np.full(5, -1)
    return find_leak(*rows, nothing_known, nothing_known, cell=cell)


class TestCheck:
    clean = leak_between([1], [2], "clean")
    bad = leak_between([1, 2], [2, 4], "bad")
    worse = leak_between([1, 2], [2], "worse")

    def test_a_leak_is_an_error(self) -> None:
        with pytest.raises(FixInput) as error:
            check_leaks([self.clean, self.bad, self.worse])
        assert "2 of 3 cells" in error.value.message
        assert "worse, 1 of 1" in str(error.value)
        assert [line.split(":")[0] for line in error.value.details] == ["bad", "worse"]
        assert len(str(error.value).splitlines()) == 3

    def test_unless_allowed(self) -> None:
        check_leaks([self.bad], allowed=True)
