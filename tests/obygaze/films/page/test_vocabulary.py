"""A vocabulary is a TOML file: its concepts and definitions are on the page, and in marks."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.film_pages import film_clips, site

from obygaze.films.page.site import Site
from obygaze.films.vocabulary import (
    vocabulary_path,
)
from obygaze_features.core.errors import FixInput

MIRROR = """\
schema = "obygaze-vocabulary/1"

[[concepts]]
name = "Mirror"
definition = "She is seen in a mirror."
modality = "visual"

[[concepts]]
name = "Silence"
"""


def page_with(folder: Path, text: str) -> Site:
    """A page for ada of a manifest with the concepts Look and Body, and a vocabulary."""
    page = site(folder, film_clips("lake", ""), "ada")
    vocabulary_path(folder / "segments", "films").write_text(text, "utf-8")
    return page


def test_the_page_has_the_concepts_of_the_file_with_their_definitions(
    tmp_path: Path,
) -> None:
    shown = page_with(tmp_path, MIRROR).overview()
    assert list(shown["concepts"]) == ["Look", "Body", "Mirror", "Silence"]
    assert shown["concepts"]["Mirror"] == "She is seen in a mirror."
    assert shown["concepts"]["Look"] != ""
    assert shown["problem"] == ""


@pytest.mark.parametrize(
    ("concept", "problem"),
    [
        ('name = "Look"', "'Look' is there twice"),
        ('name = "Mirror"\n[[concepts]]\nname = "Mirror"', "'Mirror' is there twice"),
        ('name = "EN"', "'EN' is a level"),
        ('name = "type of plan"', "is another name of 'Type of shot'"),
        ('name = "a|b"', "none of them |"),
        ('name = ""', "1 to 120 letters"),
        ('name = "Mirror"\nbroader = "Look"', "broader"),
        ('definition = "a mirror"', "name"),
    ],
)
def test_what_is_wrong_in_the_file_is_said_on_the_page(
    tmp_path: Path, concept: str, problem: str
) -> None:
    text = f'schema = "obygaze-vocabulary/1"\n[[concepts]]\n{concept}\n'
    page = page_with(tmp_path, text)
    shown = page.overview()
    assert problem in shown["problem"]
    assert "films.vocabulary.toml" in shown["problem"]
    assert str(tmp_path) not in shown["problem"]
    assert list(shown["concepts"]) == ["Look", "Body"]


def test_the_modality_of_a_vocabulary_is_that_of_projected_clips(
    tmp_path: Path,
) -> None:
    """It was to be written a second time, as the modality of the manifest."""
    from obygaze.films.labels import project_marks

    vocabulary_path(tmp_path, "films").write_text(MIRROR, "utf-8")
    columns = "movie_id,annotator,start_frame,end_frame,level,concepts,framerate\n"
    marks = tmp_path / "films.ada.csv"
    marks.write_text(f"{columns}lake,ada,0,24,S,Mirror|Silence|Look,25\n")
    made = project_marks(marks, every="1", workspace=tmp_path).manifest
    names = ("Mirror", "Silence", "Look")
    known = made.header.concepts
    assert [known[name] for name in names] == ["visual", "unknown", "visual"]
    # Two vocabularies contradict each other.
    others = tmp_path / "pond.ben.csv"
    others.write_text(marks.read_text().replace("ada", "ben").replace("lake", "pond"))
    vocabulary_path(tmp_path, "pond").write_text(
        'schema = "obygaze-vocabulary/1"\n[[concepts]]\nname = "Mirror"\n'
        'modality = "audio"\n'
    )
    with pytest.raises(FixInput, match="'Mirror' is visual in another"):
        project_marks([marks, others], every="1", workspace=tmp_path)
