"""The loop on made-up clips and a simulated GPU."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from obygaze_features.backbones.backbone import Backbone
from obygaze_features.extraction.clips import Decoded, RowJob, Source, ViewedClip
from obygaze_features.extraction.compute import BatchComputer
from obygaze_features.extraction.loop import StoreFiller, fill
from obygaze_features.extraction.recipes import make_arrays, make_maker, make_recipe
from obygaze_features.extraction.stopping import StopFlag
from obygaze_features.store import Row
from obygaze_features.store.filling import Filling, plan_filling
from obygaze_features.store.layout import Array
from obygaze_features.store.records import ManifestMark

# Gives the pictures of a row.
Decode = Callable[[int], ViewedClip]


def a_clip(seed: int, n_frames: int = 16, n_masked: int = 0) -> ViewedClip:
    random = np.random.default_rng(seed)
    pictures = random.integers(0, 256, (n_frames, 40, 56, 3), dtype=np.uint8)
    places = np.arange(n_frames)
    times_s = places / 25
    mask = places < n_frames - n_masked
    arrays = {"time_s": times_s, "asked_s": times_s, "mask": mask, "clean": True}
    return ViewedClip(pictures, places, mask, arrays, 99)


def arrays_of_features(backbone: Backbone) -> list[Array]:
    arrays = make_arrays(backbone, list(backbone.arrays))
    return [array for array in arrays if array.name in backbone.arrays]


def new_filling(
    target: Path, inner: Backbone, n_clips: int, computed: Sequence[bool] | None = None
) -> Filling:
    target.parent.mkdir(parents=True, exist_ok=True)
    recipe = make_recipe(inner)
    return plan_filling(
        target,
        [Row(f"c-{number:04d}", "c") for number in range(n_clips)],
        arrays=make_arrays(inner),
        recipe=recipe,
        manifest=ManifestMark("m", "0" * 64),
        kind=make_maker(inner, recipe).kind,
        computed=computed,
    )


@contextmanager
def new_filler(
    backbone: Any, filling: Filling, inner: Backbone, batch: int
) -> Iterator[StoreFiller]:
    arrays = [array for array in filling.arrays if array.name in inner.arrays]
    with ThreadPoolExecutor(1, "write") as writing:
        maker = make_maker(inner, make_recipe(inner))
        computer = BatchComputer(backbone, arrays)
        yield StoreFiller(filling, maker, computer, batch, writing)


def fill_stores(fillers: Sequence[StoreFiller], decode: Decode) -> None:
    def decode_rows(rows: Iterable[RowJob]) -> Generator[Decoded, None, None]:
        for job in rows:
            views = dict.fromkeys(job.views, decode(job.row))
            yield Decoded(job.row, Source(), views)

    with (
        mock.patch("secrets.randbelow", lambda most: 0),
        closing(fill(fillers, decode_rows, StopFlag())) as filled,
    ):
        for _ in filled:
            continue
