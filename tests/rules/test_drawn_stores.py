"""Drawn operations on stores and their manifests, against a plain model in memory.

A model has the film, the times and the vector of each clip. Each operation is carried out in the
program and in the model, and then all clips of the store are compared.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support.joined_stores import join_of
from support.seeds import SEED, amount
from support.stores import a_recipe, made_store

from obygaze_features.core.errors import Mismatch, ObygazeError
from obygaze_features.extraction.cases import (
    CHANGED,
    SAME,
    ExtractionRequest,
    compare_with_store,
)
from obygaze_features.extraction.clips import plan_clips
from obygaze_features.extraction.stored import StoreState
from obygaze_features.manifest.link import link
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_features.store import Row, Store, merge, open_store, subset
from obygaze_features.store.exporting import export_features
from obygaze_features.store.importing import import_features
from obygaze_features.store.layout import Array
from obygaze_features.store.rows import FAILED, NOT_EXTRACTED

FILMS = ("alba", "brug", "cirk", "dorp")
WIDTH = 3
ENDINGS = (".npz", ".h5", ".zarr")
# How far a clip is moved, in seconds, and whether it is another clip then.
MOVES = {0.0004: False, 0.002: True, 18.0: True}
N_STEPS = 10


@dataclass(frozen=True)
class Known:
    """What the model knows of a clip: `values` is None if it has no features."""

    film: str
    start_s: float
    values: NDArray[np.float32] | None

    @property
    def span_s(self) -> tuple[float, float]:
        return self.start_s, self.start_s + 2.5


class History:
    """A store that changes, its model, and a manifest of its clips."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.n_names = 0
        self.clips = self.draw(self.random.randint(1, 30))
        self.path = self.write(self.clips)
        self.is_imported = False

    def name(self, ending: str = "") -> Path:
        self.n_names += 1
        return self.root / f"n{self.n_names}{ending}"

    def draw(self, n_clips: int) -> dict[str, Known]:
        clips = {}
        for _ in range(n_clips):
            film = self.random.choice(FILMS)
            start_s = round(self.random.uniform(0, 5000), 2)
            has_values = self.random.random() > 0.2
            vector = self.numbers.normal(size=WIDTH).astype("float32")
            self.n_names += 1
            clips[f"{film}-{self.n_names}"] = Known(
                film, start_s, vector if has_values else None
            )
        first = next(iter(clips))
        return {**clips, first: replace(clips[first], values=np.ones(WIDTH, "float32"))}

    def write(self, clips: dict[str, Known], backbone: str = "toy") -> Path:
        rows = []
        for name, clip in clips.items():
            row = Row(name, clip.film, *clip.span_s)
            if clip.values is None:
                row = row._replace(status=FAILED, reason="no picture")
            rows.append(row)
        nothing = np.zeros(WIDTH, "float32")
        values = [nothing if c.values is None else c.values for c in clips.values()]
        path = self.name()
        recipe = a_recipe(backbone={"name": backbone, "card_sha256": "ab" * 32})
        made_store(path, rows, {"clip": np.stack(values)}, recipe=recipe)
        return path

    def manifest(self, clips: dict[str, Known]) -> Manifest:
        """A manifest of clips, in another order."""
        made = []
        for name, clip in clips.items():
            start_s, end_s = clip.span_s
            made.append(Clip(name, clip.film, start_s=start_s, end_s=end_s))
        self.random.shuffle(made)
        return Manifest("m", Header("m"), tuple(made))

    # The operations.

    def subset(self) -> None:
        films = sorted({clip.film for clip in self.clips.values()})
        kept = self.random.sample(films, self.random.randint(1, len(films)))
        # A store without any features could not be exported.
        with_values = [c for c in self.clips.values() if c.values is not None]
        kept = sorted({*kept, with_values[0].film})
        part = {name: clip for name, clip in self.clips.items() if clip.film in kept}
        path = self.name()
        if self.random.random() < 0.5:
            subset(self.path, path, films=kept)
        else:
            subset(self.path, path, clips=self.manifest(part).clips)
        self.go_on(path, part)

    def merge(self) -> None:
        more = self.draw(self.random.randint(1, 10))
        path = self.name()
        if self.is_imported:
            # An export is read under a recipe of its own.
            with pytest.raises(ObygazeError, match="recipe"):
                merge([self.path, self.write(more)], path)
            return
        merge([self.path, self.write(more)], path)
        self.go_on(path, {**self.clips, **more})

    def export_and_import(self) -> None:
        """What has no features is not exported; a manifest brings it back as a failed row."""
        file = self.name(self.random.choice(ENDINGS))
        export_features(open_store(self.path), file)
        with_values = {n: c for n, c in self.clips.items() if c.values is not None}
        path = self.name()
        if self.random.random() < 0.5:
            import_features(file, path)
            expected = with_values
        else:
            import_features(file, path, manifest=self.manifest(self.clips))
            expected = self.clips
        self.is_imported = True
        self.path, self.clips = path, expected

    def join(self) -> None:
        """A clip of a join has the numbers of both parts, or none."""
        names = list(self.clips)
        chosen = self.random.sample(names, self.random.randint(1, len(names)))
        others = {}
        for name in chosen:
            vector = self.numbers.normal(size=WIDTH).astype("float32")
            has_values = self.random.random() > 0.2
            others[name] = replace(
                self.clips[name], values=vector if has_values else None
            )
        parts = {
            "a": open_store(self.path),
            "b": open_store(self.write(others, "other")),
        }
        found = join_of(parts).matrix("clip", clips=names, missing="drop")
        expected = {}
        for name, other in others.items():
            ours = self.clips[name].values
            if ours is not None and other.values is not None:
                expected[name] = np.concatenate([ours, other.values])
        assert set(found.clip_ids.tolist()) == set(expected)
        for name, vector in zip(found.clip_ids.tolist(), found.values, strict=True):
            np.testing.assert_array_equal(vector, expected[name])

    def link(self) -> None:
        """Clips of a film's file are those of the store; a file of its own is another file."""
        folder = self.name()
        folder.mkdir()
        manifest = self.manifest(self.clips)
        n_own = self.random.randint(0, min(2, len(self.clips)))
        own = self.random.sample(sorted(self.clips), n_own)
        names = {*own, *(clip.film for clip in self.clips.values() if not own)}
        for name in names:
            (folder / f"{name}.mp4").touch()
        linked = link(manifest, folder).manifest
        assert sorted(c.clip_id for c in linked if c.start_s is None) == sorted(own)
        store = open_store(self.path)
        # Features of the clips stay theirs, whatever file they are in.
        rows = store.match(linked.clips)
        assert store.clip_ids[rows].tolist() == list(linked.clip_ids)
        # A growth would decode other pictures.
        stored = StoreState(a_recipe(), [Array.of("clip", "float32", (3,))], [], ())
        stored = replace(stored, rows=store.rows)
        request = ExtractionRequest(
            plan_clips(linked), a_recipe(), ("clip",), None, facts={}
        )
        work = compare_with_store(request, stored)
        changed = {line.partition(":")[0] for line in work.found.get(CHANGED, ())}
        with_values = {n for n, c in self.clips.items() if c.values is not None}
        assert changed == with_values & {*own}
        assert {*work.found.get(SAME, ())} == with_values - {*own}

    def move(self) -> None:
        """A clip of other times is refused where features of the store are asked for."""
        far_s, is_other = self.random.choice(list(MOVES.items()))
        # An export asks the clips that it writes, which have features.
        with_values = [n for n, c in self.clips.items() if c.values is not None]
        name = self.random.choice(with_values)
        clip = self.clips[name]
        moved = replace(clip, start_s=clip.start_s + far_s)
        manifest = self.manifest({**self.clips, name: moved})
        file = self.name(".parquet")
        store = open_store(self.path)
        doors: list[Callable[[], object]] = [
            lambda: store.matrix("clip", clips=manifest.clips, missing="drop"),
            lambda: subset(store, self.name(), clips=manifest.clips),
            lambda: export_features(store, file, labels=manifest),
        ]
        self.random.shuffle(doors)
        for door in doors:
            if not is_other:
                door()
                continue
            with pytest.raises(Mismatch, match=f"'{name}' is "):
                door()

    def go_on(self, path: Path, clips: dict[str, Known]) -> None:
        self.path, self.clips = path, clips

    def check(self) -> int:
        """Compare all clips of the store with the model; return their number."""
        store: Store = open_store(self.path)
        assert len(store) == len(self.clips)
        for row in store.rows:
            clip = self.clips[row.clip_id]
            assert (row.movie_id, row.start_s, row.end_s) == (clip.film, *clip.span_s)
            assert (row.status == FAILED) == (clip.values is None)
            assert row.status != NOT_EXTRACTED
        found = store.matrix("clip", clips=list(self.clips), missing="drop")
        expected = {n: c.values for n, c in self.clips.items() if c.values is not None}
        assert found.clip_ids.tolist() == list(expected)
        np.testing.assert_array_equal(found.values, np.stack([*expected.values()]))
        return len(self.clips)


STEPS = ("subset", "merge", "export_and_import", "join", "link", "move")


@pytest.mark.filterwarnings("ignore::obygaze_features.core.errors.ObygazeWarning")
@pytest.mark.parametrize("number", range(amount(4, 40)))
def test_drawn_operations_against_a_plain_model(tmp_path: Path, number: int) -> None:
    history = History(tmp_path, 1000 * SEED + number)
    n_compared = history.check()
    for _ in range(N_STEPS):
        step = history.random.choice(STEPS)
        print(step)
        getattr(history, step)()
        n_compared += history.check()
    assert n_compared >= N_STEPS
