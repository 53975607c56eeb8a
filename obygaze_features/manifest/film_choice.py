"""Choose a film by what a person calls it: its id, the name of its file, its title or a part of it.

An id always means its own film. A file, a title or a part of a title must be that of one film only.
"""

import difflib
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from obygaze_features.core.console import count, few
from obygaze_features.core.errors import FixUsage, NotFound
from obygaze_features.core.file_names import composed, folded
from obygaze_features.manifest.model import Clip, Manifest, Windows
from obygaze_features.manifest.vocabulary import film_facts
from obygaze_features.manifest.windows import Film

BY_ID = "the id"
BY_PART_OF_TITLE = "a part of the title"
SHOWN_CANDIDATES = 20
# At least this similar to what was typed is what the user may have meant.
SIMILAR = 0.6


@dataclass(frozen=True)
class NamedFilm:
    """A film, its titles, and the names of its videos (with their folders, as in a manifest)."""

    movie_id: str
    titles: tuple[str, ...] = ()
    videos: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.movie_id} ({self.titles[0]})" if self.titles else self.movie_id


@dataclass(frozen=True)
class ChosenFilm:
    """A film that was asked for by `name`; `by` says what this name is of the film."""

    name: str
    movie_id: str
    title: str = ""
    by: str = BY_ID

    @property
    def notes(self) -> list[str]:
        """Which film was taken, if it was not asked for by its id."""
        if self.by == BY_ID:
            return []
        title = f" ({self.title})" if self.title else ""
        return [f"{self.name!r} is {self.by} of film {self.movie_id}{title}"]


def notes_of_films(films: Iterable[ChosenFilm]) -> list[str]:
    """Return which films were taken, of those that were not asked for by their ids."""
    notes = []
    for film in films:
        notes += film.notes
    return notes


def titles_of_films(manifest: Manifest) -> dict[str, str]:
    """Return the titles that a manifest has, as `title_of_clip` reads them, by film."""
    title_of_film = {}
    for movie_id, titles in _titles_of_columns(manifest.clips).items():
        title_of_film[movie_id] = next(reversed(titles))
    return title_of_film


def titles_of(
    movie_ids: Iterable[str], manifest: Manifest | None = None
) -> dict[str, str]:
    """Return the titles of films that are known: from a manifest, else of published films."""
    titles = {} if manifest is None else titles_of_films(manifest)
    title_of_film = {}
    for movie_id in movie_ids:
        title = titles.get(movie_id) or film_facts(movie_id).get("title")
        if title:
            title_of_film[movie_id] = str(title)
    return title_of_film


def named_films(manifest: Manifest) -> list[NamedFilm]:
    """Return the films of a manifest with their titles and videos."""
    return films_of_clips(manifest.clips)


def films_of_clips(rows: Sequence[Clip]) -> list[NamedFilm]:
    """Return the films of clips, or of windows, with their titles and videos."""
    titles_of_film = _titles_of_columns(rows)
    videos_of_film: dict[str, dict[str, None]] = {}
    rows_with_videos: Iterable[Clip | Film] = rows
    if isinstance(rows, Windows):
        rows_with_videos = rows.films
    for row in rows_with_videos:
        videos = videos_of_film.setdefault(row.movie_id, {})
        if row.video:
            videos[row.video] = None
    films = []
    for movie_id in sorted(videos_of_film):
        titles = dict.fromkeys(titles_of_film.get(movie_id, ()))
        titles.update(dict.fromkeys(_published_titles(movie_id)))
        film = NamedFilm(movie_id, tuple(titles), tuple(videos_of_film[movie_id]))
        films.append(film)
    return films


def published_films(movie_ids: Iterable[str]) -> list[NamedFilm]:
    """Return films of which only the ids are known; those of ObyGaze12 and MObyGaze have titles."""
    return [NamedFilm(film, _published_titles(film)) for film in sorted(movie_ids)]


def choose_film(
    name: str, films: Sequence[NamedFilm], *, where: str, by_part: bool = True
) -> ChosenFilm:
    """Return the film that is called by a name.

    Its id is tried first, then the name of a file, with or without folders and suffix, then a
    title, then a part of a title. Capitals do not count, except in ids.

    Args:
        name: What the film is called.
        films: The films to choose from.
        where: The manifest or the store, for messages.
        by_part: Take a part of a title too. What cannot be undone needs a whole name.

    Example:
        >>> films = [NamedFilm("tt0467406", ("Juno",)), NamedFilm("tt1907668", ("Flight",))]
        >>> choose_film("juno", films, where="films").movie_id
        'tt0467406'
    """
    for film in films:
        if film.movie_id == name:
            return _chosen(name, film, BY_ID)
    for by, is_called in _WAYS.items():
        candidates = [film for film in films if is_called(film, name)]
        if candidates and by == BY_PART_OF_TITLE and not by_part:
            raise FixUsage(
                f"{name!r} is only {by} of {few(list(map(str, candidates)))}",
                where=where,
                hint=f"did you mean {candidates[0].titles[0]!r}? This needs an id, a whole "
                "title or the name of a file",
            )
        if len(candidates) == 1:
            return _chosen(name, candidates[0], by)
        if candidates:
            raise FixUsage(
                f"{name!r} is {by} of {count(len(candidates), 'film')}",
                where=where,
                hint=f"the id of one of them: {few([film.movie_id for film in candidates])}",
                details=list(map(str, candidates[:SHOWN_CANDIDATES])),
            )
    hint = f"one of {few(list(map(str, films)))}"
    if films and not any(film.titles for film in films):
        hint += "; their titles are not known here"
    raise NotFound(
        f"no film {name!r}{_suggestion(name, films)}", where=where, hint=hint
    )


def ids_by_name(films: Sequence[NamedFilm]) -> dict[str, str]:
    """Return the ids of films by their ids and titles, without titles that several films have."""
    id_of_name: dict[str, str] = {}
    ambiguous = set()
    for film in films:
        for title in film.titles:
            if id_of_name.setdefault(title, film.movie_id) != film.movie_id:
                ambiguous.add(title)
    for title in ambiguous:
        del id_of_name[title]
    ids = {film.movie_id: film.movie_id for film in films}
    return id_of_name | ids


def _chosen(name: str, film: NamedFilm, by: str) -> ChosenFilm:
    title = film.titles[0] if film.titles else ""
    return ChosenFilm(name, film.movie_id, title, by)


def _has_id(film: NamedFilm, name: str) -> bool:
    """Return whether a film has this id, with its accents in their letters or beside them."""
    return composed(film.movie_id) == composed(name)


def _has_video(film: NamedFilm, name: str) -> bool:
    wanted = folded(name.replace("\\", "/"))
    for video in film.videos:
        path = PurePosixPath(folded(video))
        if wanted in (str(path), path.name, path.stem):
            return True
    return False


def _has_title(film: NamedFilm, name: str) -> bool:
    return any(_plain(title) == _plain(name) for title in film.titles)


def _has_part_of_title(film: NamedFilm, name: str) -> bool:
    part = _plain(name)
    return bool(part) and any(part in _plain(title) for title in film.titles)


_WAYS: Mapping[str, Callable[[NamedFilm, str], bool]] = {
    BY_ID: _has_id,
    "the name of a video": _has_video,
    "the title": _has_title,
    BY_PART_OF_TITLE: _has_part_of_title,
}


def _plain(text: str) -> str:
    """Return a title without capitals and repeated blanks, in one form of Unicode."""
    compatible = unicodedata.normalize("NFKC", text).replace("’", "'")
    return " ".join(unicodedata.normalize("NFKC", compatible.casefold()).split())


def _without_accents(text: str) -> str:
    parts = unicodedata.normalize("NFKD", _plain(text))
    return "".join(sign for sign in parts if not unicodedata.combining(sign))


def _suggestion(name: str, films: Sequence[NamedFilm]) -> str:
    """Return ` (did you mean 'x'?)` for the id, file or title most like a name, or ``.

    As many words of a title as were typed are compared, since a part of it is enough.
    """
    wanted = _without_accents(name)
    if not wanted:
        return ""
    n_words = len(wanted.split())
    name_of_phrase: dict[str, str] = {}
    for film in films:
        known_names = [film.movie_id, *film.titles]
        # The files of single clips would be too many, and are no names of films.
        if len(film.videos) == 1:
            known_names.append(PurePosixPath(film.videos[0]).stem)
        for known_name in known_names:
            words = _without_accents(known_name).split()
            name_of_phrase.setdefault(" ".join(words), known_name)
            for first in range(len(words) - n_words + 1):
                phrase = " ".join(words[first : first + n_words])
                name_of_phrase.setdefault(phrase, known_name)
    similar = difflib.get_close_matches(wanted, name_of_phrase, 1, SIMILAR)
    return f" (did you mean {name_of_phrase[similar[0]]!r}?)" if similar else ""


def _published_titles(movie_id: str) -> tuple[str, ...]:
    title = film_facts(movie_id).get("title")
    return () if title is None else (str(title),)


def _titles_of_columns(rows: Sequence[Clip]) -> dict[str, dict[str, None]]:
    """Return the different titles that the clips of each film have."""
    titles_of_film: dict[str, dict[str, None]] = {}
    if isinstance(rows, Windows):
        return titles_of_film
    for clip in rows:
        title = title_of_clip(clip)
        if title:
            titles_of_film.setdefault(clip.movie_id, {})[title] = None
    return titles_of_film


def title_of_clip(clip: Clip) -> str:
    """Return the title of the film that a clip's row has; "" if it has none.

    Where the table had `Cléo de 5 à 7` in its column of ids, that is the title.
    """
    for column in ("movie_title", "title", "given_movie_id"):
        if clip.extra.get(column):
            return clip.extra[column]
    return ""
