"""The clips that the filters of the page choose, as a table for spreadsheets."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from obygaze.films.site import Document, Site
from obygaze_features.core.errors import FixUsage
from obygaze_features.core.written_tables import Columns, write_table

KINDS = {
    "csv": "text/csv; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
FACTS = ("id", "film", "title", "start", "end", "scene", "level", "concepts")
MORE_FACTS = ("annotator", "comment", "missing")
SCORE_FACTS = ("score", "low", "high", "fits", "positive", "correct")


def selected_columns(
    site: Site,
    *,
    of: str = "",
    level: str = "",
    concept: str = "",
    where: str = "",
    text: str = "",
    cell: int | None = None,
) -> Columns:
    """Return the chosen clips as columns, in the order of the manifest, or by similarity to a text.

    Args:
        site: The page.
        of: The film.
        level: The level.
        concept: A concept that the clips have.
        where: An expression.
        text: A text that the clips are compared with.
        cell: The model of the run whose scores are given.
    """
    overview = site.overview()
    titles = {film["id"]: film["title"] for film in overview["films"]}
    allowed = set(site.where(where)) if where else None
    cosines = dict(site.search(text)) if text else None
    scores = site.scores(cell)["scores"] if cell is not None else {}
    rows = []
    for clip in overview["clips"]:
        is_chosen = (
            of in ("", clip["film"])
            and level in ("", clip["level"])
            and (not concept or concept in clip["concepts"])
            and (allowed is None or clip["id"] in allowed)
            and (cosines is None or clip["id"] in cosines)
        )
        if is_chosen:
            rows.append({**clip, **scores.get(clip["id"], {})})
    for row in rows:
        row["title"] = titles[row["film"]]
        row["concepts"] = "|".join(row["concepts"])
        if cosines is not None:
            row["similarity"] = cosines[row["id"]]
    if cosines is not None:
        rows.sort(key=lambda row: -row["similarity"])
    return _columns(rows, has_scores=bool(scores), has_cosines=cosines is not None)


def _columns(
    rows: Sequence[Document], *, has_scores: bool, has_cosines: bool
) -> dict[str, list[Any]]:
    names = [*FACTS, *MORE_FACTS]
    if has_scores:
        names += SCORE_FACTS
    if has_cosines:
        names.append("similarity")
    headers = {"id": "clip_id", "film": "movie_id", "start": "start_s", "end": "end_s"}
    columns = {}
    for name in names:
        columns[headers.get(name, name)] = [row.get(name) for row in rows]
    return columns


def selected_table(site: Site, kind: str, **filters: Any) -> tuple[bytes, str]:
    """Return the chosen clips as the bytes of a file, csv or xlsx, and its media type."""
    if kind not in KINDS:
        raise FixUsage(f"a table is one of {', '.join(KINDS)}, got {kind!r}")
    columns = selected_columns(site, **filters)
    with TemporaryDirectory() as folder:
        path = write_table(Path(folder) / f"clips.{kind}", columns)
        return path.read_bytes(), KINDS[kind]
