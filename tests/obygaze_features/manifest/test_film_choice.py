"""Films are chosen by their ids, the names of their files, their titles and parts of these."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import numpy as np
import pytest
from support.cli import call_obygaze
from support.stores import fill_store, plan_store

from obygaze_features.core.errors import FixUsage, NotFound
from obygaze_features.manifest import Clip, Header, Manifest, write_manifest
from obygaze_features.manifest.film_choice import (
    NamedFilm,
    choose_film,
    named_films,
    published_films,
)
from obygaze_features.manifest.model import Windows
from obygaze_features.manifest.windows import Film, Grid
from obygaze_features.store import open_store, push, subset
from obygaze_features.store.format.schema import ArraySpec

AMELIE = "Le Fabuleux Destin d'Amélie Poulain"
# Of each film: its id, its title and the video of its first clip.
FILMS = {
    "amelie": (AMELIE, "French/Amelie.2001.mkv"),
    "help": ("The Help", "help.mp4"),
    "hours": ("The Hours", "hours-2002.mp4"),
    "Help": ("Help!", "beatles.mp4"),
    "psycho60": ("Psycho", "a/film.mp4"),
    "psycho98": ("Psycho", "b/film.mp4"),
    "Hours": ("", ""),
}


def a_manifest() -> Manifest:
    clips = []
    for movie_id, (title, video) in FILMS.items():
        for number, file in ((1, video), (2, "")):
            clip = Clip(
                f"{movie_id}-{number}",
                movie_id,
                number,
                file,
                extra={"movie_title": title},
            )
            clips.append(clip)
    return Manifest("films", Header("Films"), tuple(clips), ("movie_title",))


def choose(name: str) -> tuple[str, str]:
    film = choose_film(name, named_films(a_manifest()), where="films")
    return film.movie_id, film.by


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # An id wins over the file of another film, and over the title of another one.
        ("help", ("help", "the id")),
        ("Help", ("Help", "the id")),
        ("Hours", ("Hours", "the id")),
        ("The Hours", ("hours", "the title")),
        ("HELP.MP4", ("help", "the name of a video")),
        ("beatles", ("Help", "the name of a video")),
        ("amelie.2001", ("amelie", "the name of a video")),
        ("French\\amelie.2001.mkv", ("amelie", "the name of a video")),
        ("b/film.mp4", ("psycho98", "the name of a video")),
        ("the  help", ("help", "the title")),
        # Also a part of the title of no other film, but a whole title before that.
        ("help!", ("Help", "the title")),
        ("Le fabuleux destin d’AMÉLIE poulain", ("amelie", "the title")),
        ("Amélie Poulain", ("amelie", "a part of the title")),
        (
            unicodedata.normalize("NFD", "amélie"),
            ("amelie", "a part of the title"),
        ),
        ("hour", ("hours", "a part of the title")),
    ],
)
def test_ways_to_name_a_film(name: str, expected: tuple[str, str]) -> None:
    assert choose(name) == expected


def test_an_id_whose_accents_are_beside_their_letters_is_the_same_id() -> None:
    films = [NamedFilm("café"), NamedFilm("lake")]
    chosen = choose_film(unicodedata.normalize("NFD", "café"), films, where="films")
    assert (chosen.movie_id, chosen.notes) == ("café", [])


@pytest.mark.parametrize(
    ("name", "message", "candidates"),
    [
        ("psycho", "the title of 2 films", ["psycho60 (Psycho)", "psycho98 (Psycho)"]),
        (
            "film.mp4",
            "the name of a video of 2 films",
            ["psycho60 (Psycho)", "psycho98 (Psycho)"],
        ),
        (
            "the h",
            "a part of the title of 2 films",
            ["help (The Help)", "hours (The Hours)"],
        ),
    ],
)
def test_several_films_are_an_error_that_lists_them(
    name: str, message: str, candidates: list[str]
) -> None:
    with pytest.raises(FixUsage, match=f"{name!r} is {message}") as error:
        choose(name)
    assert list(error.value.details) == candidates
    assert error.value.hint is not None
    assert error.value.hint.startswith("the id of one of them: ")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Amelie Poulin", AMELIE),
        ("amelie", None),
        ("psycho6", "psycho60"),
        ("beatels", "beatles"),
        ("The Hourss", "The Hours"),
    ],
)
def test_what_was_meant(name: str, meant: str | None) -> None:
    if meant is None:
        assert choose(name) == ("amelie", "the id")
        return
    with pytest.raises(NotFound) as error:
        choose(name)
    assert error.value.message == f"no film {name!r} (did you mean {meant!r}?)"


@pytest.mark.parametrize("name", ["", "  ", "qqqqqqq", "|", "("])
def test_a_name_that_is_like_no_film(name: str) -> None:
    with pytest.raises(NotFound) as error:
        choose(name)
    assert error.value.message == f"no film {name!r}"


def test_films_without_titles_have_only_ids() -> None:
    films = published_films(["lake", "night"])
    assert choose_film("lake", films, where="store").by == "the id"
    with pytest.raises(NotFound) as error:
        choose_film("The Lake", films, where="store")
    assert error.value.hint == "one of lake, night; their titles are not known here"


def test_films_of_obygaze12_have_titles_anywhere() -> None:
    films = published_films(["tt0467406", "tt1907668", "lake"])
    chosen = choose_film("JUNO", films, where="store")
    assert chosen.notes == ["'JUNO' is the title of film tt0467406 (Juno)"]


def test_films_that_are_cut_into_windows_are_named_by_their_files() -> None:
    grid = Grid(seconds=2.0, every=2.0)
    film = Film("night", "a/Night Train.mp4", 10**9, 25.0, 4e7)
    manifest = Manifest(
        "w", Header("W", unit="window", grid=grid), Windows((film,), grid)
    )
    assert (
        choose_film("night train", named_films(manifest), where="w").movie_id == "night"
    )


# The commands and functions.


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    manifest = a_manifest()
    write_manifest(manifest, tmp_path / "manifests" / "films.toml")
    spec = ArraySpec("clip", (2,))
    clip_ids = [clip.clip_id for clip in manifest]
    movie_ids = [clip.movie_id for clip in manifest]
    for name, manifest_name in (("known", "films"), ("unknown", "../manifests/films")):
        path = tmp_path / "stores" / name
        plan_store(
            path,
            clip_ids=clip_ids,
            movie_ids=movie_ids,
            arrays=(spec,),
            block_rows=4,
            manifest_name=manifest_name,
        )
        values = np.zeros((len(clip_ids), 2), np.float32)
        fill_store(path, {"clip": values}).seal()
    return tmp_path


def test_manifest_show_takes_a_title_and_says_which_film_it_is(workspace: Path) -> None:
    said = call_obygaze(
        "-C", workspace, "manifest", "show", "films", "--film", "Amélie Poulain"
    ).ok()
    assert "amelie-1" in said.stdout and "help-1" not in said.stdout
    expected = f"'Amélie Poulain' is a part of the title of film amelie ({AMELIE})"
    assert expected in " ".join(said.stderr.split())
    by_id = call_obygaze(
        "-C", workspace, "manifest", "show", "films", "--film", "amelie"
    ).ok()
    assert by_id.stdout == said.stdout
    assert by_id.stderr == "selected: 2 of 14 clips\n"
    several = call_obygaze(
        "-C", workspace, "manifest", "show", "films", "--film", "psycho"
    )
    assert several.code == 2
    assert "psycho60 (Psycho)\npsycho98 (Psycho)\n" in several.stderr


@pytest.mark.parametrize("command", ["subset", "push", "pull"])
def test_commands_of_stores_take_titles_of_the_manifest(
    workspace: Path, tmp_path: Path, command: str
) -> None:
    target = tmp_path / "stores" / "part"
    words = {
        "subset": ("subset", "known", "-o", "part"),
        "push": ("push", "known", target, "--no-licence"),
        "pull": ("pull", "known", "-o", "part"),
    }
    said = call_obygaze(
        *("-C", workspace, "store", *words[command], "--film", "Amélie"),
        *("--film", "beatles"),
    ).ok()
    notes = " ".join(said.stderr.split())
    assert f"'Amélie' is a part of the title of film amelie ({AMELIE})" in notes
    assert "'beatles' is the name of a video of film Help (Help!)" in notes
    part = open_store(target)
    assert part.clip_ids.tolist() == ["amelie-1", "amelie-2", "Help-1", "Help-2"]
    # The same part, whatever its films were called.
    if command == "pull":
        (origin,) = part.plan.origins
        assert origin.films == ("Help", "amelie")


def test_the_json_of_a_copy_says_which_films_were_taken(workspace: Path) -> None:
    said = call_obygaze(
        *("-C", workspace, "store", "subset", "known", "-o", "part"),
        *("--film", "amélie", "--json"),
    ).ok()
    assert said.json()["films"] == [
        {
            "name": "amélie",
            "movie_id": "amelie",
            "title": AMELIE,
            "by": "a part of the title",
        }
    ]


def test_a_store_without_its_manifest_has_only_ids(
    workspace: Path, tmp_path: Path
) -> None:
    for store in ("known", "unknown"):
        home = tmp_path / "elsewhere" if store == "known" else workspace
        with pytest.raises(NotFound, match="no film 'Amélie Poulain'"):
            subset(
                workspace / "stores" / store,
                tmp_path / "new",
                films=["Amélie Poulain"],
                workspace=home,
            )
    copied = subset(workspace / "stores/unknown", tmp_path / "new", films="amelie")
    assert (copied.n_clips, copied.notes) == (2, [])


def test_python_takes_titles_too(tmp_path: Path) -> None:
    path = tmp_path / "store"
    plan_store(
        path,
        clip_ids=["a", "b"],
        movie_ids=["tt0467406", "tt1907668"],
        arrays=(ArraySpec("clip", (1,)),),
        block_rows=1,
    )
    fill_store(path, {"clip": np.array([[1.0], [2.0]], np.float32)}).seal()
    store = open_store(path)
    assert store.matrix("clip", films=["juno"]).values.tolist() == [[1.0]]
    assert store.matrix("clip", films="Flight").clip_ids.tolist() == ["b"]
    sent = push(store, tmp_path / "sent", films=["Juno"], no_licence=True)
    assert sent.notes == ["'Juno' is the title of film tt0467406 (Juno)"]


@pytest.mark.parametrize("part", ["Poulain", "the h"])
def test_what_cannot_be_undone_takes_no_part_of_a_title(part: str) -> None:
    films = named_films(a_manifest())
    with pytest.raises(FixUsage, match="is only a part of the title of") as error:
        choose_film(part, films, where="films", by_part=False)
    assert str(error.value.hint).startswith("did you mean ")
    for name in ("amelie", AMELIE, "Amelie.2001.mkv"):
        chosen = choose_film(name, films, where="films", by_part=False)
        assert chosen.movie_id == "amelie"


def test_withdraw_needs_a_whole_title(workspace: Path) -> None:
    words = ("-C", workspace, "store", "withdraw", "known", "--reason", "x", "--film")
    refused = call_obygaze(*words, "Poulain")
    assert refused.code == 2 and AMELIE in " ".join(refused.stderr.split())
    assert open_store(workspace / "stores/known").version == 1
    call_obygaze(*words, AMELIE).ok()
    status = open_store(workspace / "stores/known").status()
    assert status.counts["withdrawn"] == 2
