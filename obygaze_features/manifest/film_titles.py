"""The titles of films."""

from collections.abc import Iterable

from obygaze_features.manifest.model import Clip, Manifest, Windows
from obygaze_features.manifest.vocabulary import film_facts


def titles_of_films(manifest: Manifest) -> dict[str, str]:
    """Return the titles that a manifest has, by film; windows have none."""
    title_of_film: dict[str, str] = {}
    if isinstance(manifest.clips, Windows):
        return title_of_film
    for clip in manifest.clips:
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
