"""Clips in which nothing is said or heard are like nothing: what compares vectors leaves them out.

A store of words has the vector of the empty text for them, which is like some texts, and the same
for all of them. Each comparison says of the others what it says where these clips do not exist.
"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.sentences import recipe_of_words, write_sentences
from support.stores import made_store

from obygaze.audits.eat import audit_eat
from obygaze_features.core.errors import FixInput
from obygaze_features.extraction.search import search
from obygaze_features.store.rows import Row

EMPTY_TEXT = [1.0, 0.0]
NO_FIXTURES = [HealthCheck.function_scoped_fixture]


def words_of(folder: Path, name: str, n_words: dict[str, int]) -> Path:
    """A store of words: each clip that has some is somewhere between both texts."""
    rows = []
    vectors = []
    for clip_id, n_of_clip in n_words.items():
        number = int(clip_id[1:])
        rows.append(Row(clip_id, f"film-{number % 2}"))
        angle = 0.3 + 0.2 * number
        vectors.append([np.cos(angle), np.sin(angle)] if n_of_clip else EMPTY_TEXT)
    values = {
        "clip": np.array(vectors, np.float32),
        "n_words": np.array([*n_words.values()], np.int32),
    }
    path = folder / "stores" / name
    made_store(path, rows, values, recipe=recipe_of_words())
    return path


@settings(max_examples=4, deadline=None, suppress_health_check=NO_FIXTURES)
@given(st.lists(st.integers(0, 2), min_size=6, max_size=9))
def test_what_compares_clips_is_as_if_silent_ones_were_not_there(
    tmp_path_factory, numbers
):
    folder = tmp_path_factory.mktemp("silent")
    n_words = {f"c{number}": n for number, n in enumerate(numbers)}
    said = {clip_id: n for clip_id, n in n_words.items() if n}
    silent = [clip_id for clip_id in n_words if clip_id not in said]
    if len(said) < 4:
        return
    whole = words_of(folder, "whole", n_words)
    part = words_of(folder, "part", said)
    first, *others = said
    assert search(whole, like=first) == search(part, like=first)
    for clip_id in silent:
        with pytest.raises(FixInput, match=f"the clip '{clip_id}' has no words"):
            search(whole, like=clip_id)

    up, down = np.eye(2)
    texts = write_sentences(folder / "texts.npz", {"up": up, "down": down})
    x = [first, others[0]]
    found = audit_eat(whole, x=x, y=[*others[1:], *silent], text=texts)
    expected = audit_eat(part, x=x, y=others[1:], text=texts)
    assert found["n_silent"] == len(silent)
    about = {"source": "part", "n_silent": 0}
    assert {**found.to_json(), **about} == expected.to_json()
    sentences = " ".join(found.limits)
    assert ("without speech" in sentences) == bool(silent)
    if silent:
        with pytest.raises(FixInput, match=r"no clip of the group .* has words"):
            audit_eat(whole, x=x, y=silent, text=texts)


@settings(max_examples=4, deadline=None, suppress_health_check=NO_FIXTURES)
@given(st.lists(st.booleans(), min_size=6, max_size=9))
def test_vectors_of_zeros_are_like_nothing(tmp_path_factory, have_sound) -> None:
    if sum(have_sound) < 2:
        return
    folder = tmp_path_factory.mktemp("zeros")
    rows = []
    vectors = np.zeros((len(have_sound), 2), np.float32)
    for number, has_sound in enumerate(have_sound):
        rows.append(Row(f"c{number}", f"film-{number % 2}"))
        if has_sound:
            # Some cosines are negative.
            vectors[number] = [np.cos(number / 2), np.sin(number / 2)]
    is_heard = np.array(have_sound)
    heard_rows = [
        row for row, has_sound in zip(rows, have_sound, strict=True) if has_sound
    ]
    whole = made_store(folder / "stores" / "whole", rows, {"clip": vectors})
    part = made_store(folder / "part", heard_rows, {"clip": vectors[is_heard]})
    for row, has_sound in zip(rows, have_sound, strict=True):
        if has_sound:
            hits = search(part, like=row.clip_id)
            assert search(whole, like=row.clip_id) == hits
        else:
            with pytest.raises(FixInput, match="are zeros, so it cannot be compared"):
                search(whole, like=row.clip_id)
