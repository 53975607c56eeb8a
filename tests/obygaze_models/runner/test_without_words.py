"""Clips without words have one vector, and are no copies of a training clip."""

from pathlib import Path

import numpy as np
from support.experiments import films, planted, quick, run_on, store_of
from support.joined_stores import join_of
from support.sentences import recipe_of_words
from support.stores import made_store
from support.tables import models

from obygaze_features.manifest.model import Manifest
from obygaze_features.store import Row, Store
from obygaze_models.runner.limits import find_limits

ONE_PAIR = (
    *('grid.train=["EN_S"]', 'grid.test=["EN_S"]', "report.contrast=[]"),
    *('grid.models=["ridge"]', "report.concepts=false", 'report.lead=""'),
    *("grid.baselines=[]", "report.compare=false"),
)


def words_store(path, manifest, X, n_words, recipe=None) -> Store:
    rows = [
        Row(clip.clip_id, clip.movie_id, clip.start_s, clip.end_s) for clip in manifest
    ]
    values = {"clip": X, "n_words": n_words.astype(np.int32)}
    return made_store(path, rows, values, recipe=recipe or recipe_of_words())


def test_silent_clips_are_counted_and_are_no_copies(tmp_path: Path) -> None:
    manifest = films(5, 20, seed=2)
    X = planted(manifest)
    is_silent = np.arange(len(manifest)) % 3 == 0
    X[is_silent] = X[0]
    # Two clips that say the same in different films are copies still.
    X[1] = X[61]
    n_words = np.where(is_silent, 0, 5)
    store = words_store(tmp_path / "words", manifest, X, n_words)
    protocol = quick("honest", *ONE_PAIR, "data.view=raw", replicates=2)
    found = run_on(tmp_path, protocol, manifest, {"said": store})
    cell = models(found)[0]
    tested = set(found.predictions["clip_id"])
    same = {manifest.clips[1].clip_id, manifest.clips[61].clip_id} & tested
    assert cell.copies == (2 if len(same) == 2 else 0)
    texts = {limit.name: limit.text for limit in find_limits(found)}
    assert texts["without words"] == (
        f"{is_silent.sum()} of {len(manifest)} clips have no words in said and therefore"
        " the same vector; they are not counted as copies of each other."
    )
    # The same vectors in a store that does not say how many words there are.
    plain = store_of(tmp_path / "plain", manifest, X)
    found = run_on(tmp_path, protocol, manifest, {"said": plain})
    assert models(found)[0].copies > 10
    assert "without words" not in {w.name for w in find_limits(found)}


def copies_in_a_join(folder: Path, manifest: Manifest, *parts: Store) -> int:
    """How many tested clips have the joined features of a training clip."""
    protocol = quick("honest", *ONE_PAIR, "data.view=raw", replicates=2)
    both = join_of({Path(part.location).name: part for part in parts})
    found = run_on(folder, protocol, manifest, {"both": both})
    return int(models(found)[0].copies)


def test_silence_in_all_parts_makes_no_copy(tmp_path: Path) -> None:
    manifest = films(5, 20, seed=2)
    is_silent = np.arange(len(manifest)) % 3 == 0
    n_words = np.where(is_silent, 0, 5)
    X = planted(manifest)
    X[is_silent] = X[0]
    tested = [
        row for row in range(len(manifest)) if manifest.clips[row].level in "EN S"
    ]
    first, second = [row for row in tested if not is_silent[row]][:: len(tested) // 3][
        :2
    ]
    assert manifest.clips[first].movie_id != manifest.clips[second].movie_id
    X[first] = X[second]
    stores = []
    for name in ("a", "b"):
        stores.append(
            words_store(
                tmp_path / name, manifest, X, n_words, recipe_of_words(name * 64)
            )
        )
    assert copies_in_a_join(tmp_path / "words", manifest, *stores) == 2
    # Beside pictures, clips are copies if the pictures are equal too.
    seen = planted(manifest, seed=7)
    one, two = [row for row in tested if is_silent[row]][:: len(tested) // 4][:2]
    seen[one] = seen[two]
    pictures = store_of(tmp_path / "seen", manifest, seen)
    assert copies_in_a_join(tmp_path / "more", manifest, stores[0], pictures) == 2
