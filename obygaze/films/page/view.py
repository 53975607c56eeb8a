"""`obygaze view`: a page of each film of a manifest, opened in the browser."""

from __future__ import annotations

import warnings
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from obygaze_features.core.console import few
from obygaze_features.core.errors import FixInput, FixUsage, ObygazeWarning
from obygaze_features.core.notebook import unknown_name
from obygaze_features.core.workspace import PathLike, Workspace

if TYPE_CHECKING:
    from obygaze.films.predictions import PredictionTable
    from obygaze_features.manifest.model import Manifest
    from obygaze_models.runner.files import Run


@dataclass(frozen=True)
class FilmPages:
    """The pages of films that were written."""

    paths: tuple[Path, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the paths of the pages."""
        return {"pages": [str(path) for path in self.paths]}

    def __str__(self) -> str:
        return "\n".join(map(str, self.paths))

    def opened(
        self,
        *,
        no_browser: bool = False,
    ) -> Self:
        """Open the first page in the browser, and return the pages.

        Args:
            no_browser: Only write the pages.
        """
        if not no_browser:
            webbrowser.open(self.paths[0].absolute().as_uri())
        return self


def view(
    manifest: PathLike,
    film: str | None = None,
    *,
    run: PathLike | None = None,
    scores: PathLike | None = None,
    output: PathLike | None = None,
    workspace: PathLike | None = None,
) -> FilmPages:
    """Write a page of each film, and open it: the video, clips, labels and scores.

    The page is pages/MANIFEST/FILM.html. It needs no server and loads nothing from the network. It
    plays the linked video of the film; if browsers do not play this video, it shows a picture of
    each clip. It also shows the marks of the tables in segments/.

    Args:
        manifest: The clips.
        film: Write only the page of this film.
        run: Show the out-of-fold scores of this run.
        scores: Show the scores of a saved model, from this table that `og.predict(...).write`
            wrote.
        output: The folder of the pages, instead of pages/MANIFEST.
        workspace: The workspace, if it is not the current one.
    """
    from obygaze.films.page.html import render_page
    from obygaze.films.page.site import Site
    from obygaze_features.core.file_names import FileNames, file_name
    from obygaze_features.core.files import write_together
    from obygaze_features.core.overwrite import FILM_PAGE, check_file
    from obygaze_features.core.shell import shell_word
    from obygaze_features.manifest import read_manifest

    here = Workspace.of(workspace)
    if run is not None and scores is not None:
        raise FixUsage("expected either --run or --scores, got both")
    clips = read_manifest(manifest, workspace=workspace)
    scored = None if run is None else _read_scored_run(run, clips, here)
    predicted = None if scores is None else _scores_of_table(Path(scores), clips)
    site = Site(here, clips, scored, predicted)
    if film is not None and film not in site.films:
        raise unknown_name("film", film, [*site.films], where=clips.name)
    if not site.films:
        raise FixInput("no clip of the manifest has a film to show", where=clips.name)
    folder = Path(output or here.root / "pages" / file_name(clips.name))
    names = FileNames()
    # The name of a film's page does not depend on which pages are written.
    page_of_film = {one: f"{names.unique_name(one)}.html" for one in site.films}
    if film is not None:
        page_of_film = {film: page_of_film[film]}
    for name in page_of_film.values():
        check_file(folder / name, FILM_PAGE)
    pages = {}
    for one, name in page_of_film.items():
        pages[folder / name] = render_page(site.document(one, folder, page_of_film))
    write_together(pages)
    unlinked = []
    for one in page_of_film:
        if not site.has_video(one):
            unlinked.append(one)
    if unlinked:
        warnings.warn(
            f"pages of films without a video: {few(unlinked, 3)}; to link videos: obygaze"
            f" manifest link {shell_word(clips.name)} FOLDER",
            ObygazeWarning,
            stacklevel=2,
        )
    return FilmPages(tuple(pages))


def _read_scored_run(run: PathLike, manifest: Manifest, workspace: Workspace) -> Run:
    """Return a run. Raise an error if its manifest or its clips differ from `manifest`."""
    # These imports load NumPy, which the help of commands does not need.
    from obygaze_features.manifest.clip_table import ClipTable
    from obygaze_features.manifest.same_clips import same_clips
    from obygaze_models.runner.text import read_run

    scored = read_run(run, workspace=workspace)
    made_from = scored.about["manifest"]["name"]
    if manifest.name != made_from:
        raise FixUsage(
            f"expected the manifest {made_from!r} of the run, got {manifest.name!r}",
            hint="for scores of other clips, pass --scores TABLE",
        )
    film_of = scored.film_of_clip
    tested = ClipTable.of(film_of, film_of.values())
    same_clips(ClipTable.of_clips(manifest.clips), tested).require(
        (f"the manifest {manifest.name}", f"the run {scored.folder.name}"),
        where=manifest.name,
    )
    return scored


def _scores_of_table(path: Path, manifest: Manifest) -> PredictionTable:
    """Return the scores of a saved model for the clips of `manifest`.

    Raise an error if the table has the scores of several models.
    """
    from obygaze.films.predictions import read_predictions, score_column

    table = read_predictions(manifest, path, required=("basis", "decision"))
    score_column(table.columns, path)
    models = dict.fromkeys(clip.model for clip in table.clips)
    if len(models) > 1:
        raise FixInput(
            f"expected the scores of one model, got {', '.join(models)}",
            where=str(path),
        )
    return table
