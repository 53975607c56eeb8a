"""The film of each clip that is imported: known for all clips, or for none; never mixed in silence.

Folds that leave out one film divide films whose clips got other film ids.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from obygaze_features.core.errors import FixInput
from obygaze_features.store import open_store
from obygaze_features.store.interchange import open_features
from obygaze_features.store.interchange.importing import import_store
from obygaze_features.store.interchange.source import FeatureSource
from obygaze_features.store.write.edit import ManifestClips

V = np.array([1.0, 2.0], dtype=np.float32)
# As YouTube has them: the part before the last hyphen is not the film.
WITH_FILM = {"aB-cD_1": "film-1", "xY-zW_2": "film-1"}
WITHOUT = ["qR-sT_3"]
MESSAGE = "1 of 3 clips has no film"


def npz_files(folder: Path) -> FeatureSource:
    films = list(WITH_FILM.values())
    np.savez(
        folder / "a.npz", clip_id=list(WITH_FILM), movie_id=films, x=np.stack([V, V])
    )
    np.savez(folder / "b.npz", clip_id=WITHOUT, x=np.stack([V]))
    return open_features("npz", [folder / "b.npz", folder / "a.npz"])


def hdf5_file(folder: Path) -> FeatureSource:
    with h5py.File(folder / "f.h5", "w") as file:
        for clip in [*WITH_FILM, *WITHOUT]:
            file[clip] = V
        for clip, film in WITH_FILM.items():
            file[clip].attrs["movie_id"] = film
    return open_features("hdf5", [folder / "f.h5"])


def npy_folder(folder: Path) -> FeatureSource:
    (folder / "f" / "film-1").mkdir(parents=True)
    for clip in WITH_FILM:
        np.save(folder / "f" / "film-1" / f"{clip}.npy", V)
    np.save(folder / "f" / f"{WITHOUT[0]}.npy", V)
    return open_features("npy", [folder / "f"])


def pth_folder(folder: Path) -> FeatureSource:
    torch = pytest.importorskip("torch")
    (folder / "f" / "film-1").mkdir(parents=True)
    for clip in WITH_FILM:
        torch.save(torch.from_numpy(V[None]), folder / "f" / "film-1" / f"{clip}.pth")
    torch.save(torch.from_numpy(V[None]), folder / "f" / f"{WITHOUT[0]}.pth")
    return open_features("pth", [folder / "f"])


SOURCES = {
    "npz": npz_files,
    "hdf5": hdf5_file,
    "npy": npy_folder,
    "pth": pth_folder,
}


@pytest.mark.parametrize("open_source", SOURCES.values(), ids=list(SOURCES))
def test_films_of_some_clips_only_are_refused(
    tmp_path: Path, open_source: Callable[[Path], FeatureSource]
) -> None:
    source = open_source(tmp_path)
    with pytest.raises(FixInput, match=MESSAGE) as caught:
        import_store(source, tmp_path / "s")
    source.close()
    assert list(caught.value.details) == WITHOUT
    assert not (tmp_path / "s").exists()


def test_an_empty_cell_is_a_clip_without_a_film(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    films = ["film", ""]
    np.savez(path, clip_id=["a-1", "a-2"], movie_id=films, x=np.stack([V, V]))
    with pytest.raises(FixInput, match="1 of 2 clips has no film: a-2"):
        import_store(open_features("npz", path), tmp_path / "s")


@pytest.mark.parametrize("open_source", SOURCES.values(), ids=list(SOURCES))
def test_a_manifest_gives_the_films_that_the_files_do_not(
    tmp_path: Path, open_source: Callable[[Path], FeatureSource]
) -> None:
    clips = [*WITH_FILM, *WITHOUT]
    manifest = ManifestClips("m", "12" * 32, clips, ["M1", "M1", "M2"])
    source = open_source(tmp_path)
    import_store(source, tmp_path / "s", manifest=manifest)
    source.close()
    store = open_store(tmp_path / "s")
    assert store.clip_ids.tolist() == clips
    assert store.movie_ids.tolist() == ["M1", "M1", "M2"]


def test_the_film_of_a_clip_is_the_same_in_all_arrays(tmp_path: Path) -> None:
    for array, film in (("a", "alien"), ("b", "brazil")):
        (tmp_path / "f" / array / film).mkdir(parents=True)
        np.save(tmp_path / "f" / array / film / "x-1.npy", V)
    with pytest.raises(FixInput, match="'x-1' is in the folders 'alien' and 'brazil'"):
        open_features("npy", [tmp_path / "f"], {"a": "a", "b": "b"})
