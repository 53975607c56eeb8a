"""Films by their ids, and the titles of films."""

import difflib
from collections.abc import Iterable, Mapping

from obygaze_features.core.console import few
from obygaze_features.core.errors import NotFound
from obygaze_features.manifest.model import Clip, Manifest, Windows
from obygaze_features.manifest.vocabulary import film_facts

# At least this similar to what was typed is what the user may have meant.
SIMILAR = 0.6


def known_film(
    name: str, movie_ids: Iterable[str], titles: Mapping[str, str], *, where: str
) -> str:
    """Return an id that is one of a film; an error names the film that may have been meant.

    Args:
        name: The id that was typed.
        movie_ids: The ids of the films.
        titles: The titles of films, as far as they are known.
        where: The manifest or the store, for the error.

    Example:
        >>> known_film("tt0467406", ["tt0467406"], {"tt0467406": "Juno"}, where="films")
        'tt0467406'
    """
    ids = list(movie_ids)
    if name in ids:
        return name
    meant = similar_film(name, ids, titles)
    suggestion = f" (did you mean {meant!r}?)" if meant else ""
    shown = []
    for movie_id in ids:
        title = titles.get(movie_id)
        shown.append(f"{movie_id} ({title})" if title else movie_id)
    raise NotFound(
        f"no film {name!r}{suggestion}", where=where, hint=f"one of {few(shown)}"
    )


def similar_film(
    name: str, movie_ids: Iterable[str], titles: Mapping[str, str]
) -> str | None:
    """Return the film whose id or title is most like a name; None if none is like it."""
    film_of_text: dict[str, str] = {}
    for movie_id in movie_ids:
        film_of_text.setdefault(movie_id.casefold(), movie_id)
        title = titles.get(movie_id)
        if title:
            film_of_text.setdefault(title.casefold(), movie_id)
    similar = difflib.get_close_matches(name.casefold(), film_of_text, 1, SIMILAR)
    return film_of_text[similar[0]] if similar else None


def titles_of_films(manifest: Manifest) -> dict[str, str]:
    """Return the titles that a manifest has, as `title_of_clip` reads them, by film."""
    return titles_of_clips(manifest.clips)


def titles_of_clips(clips: Iterable[Clip]) -> dict[str, str]:
    """Return the titles that clips have, by film; windows have none."""
    title_of_film: dict[str, str] = {}
    if isinstance(clips, Windows):
        return title_of_film
    for clip in clips:
        title = title_of_clip(clip)
        if title:
            title_of_film[clip.movie_id] = title
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


def title_of_clip(clip: Clip) -> str:
    """Return the title of the film that a clip's row has; "" if it has none.

    Where the table had `Cléo de 5 à 7` in its column of ids, that is the title.
    """
    for column in ("movie_title", "title", "given_movie_id"):
        if clip.extra.get(column):
            return clip.extra[column]
    return ""
