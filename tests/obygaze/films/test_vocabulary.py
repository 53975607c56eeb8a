"""Vocabularies: a file that can be cited, and used in marks."""

from __future__ import annotations

import csv
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from support.cli import call_obygaze, run_obygaze
from support.film_pages import ask, film_clips, manifest, mark, served, site, table

from obygaze.films.marks import MarkChange
from obygaze.films.site import Site
from obygaze.films.vocabulary import (
    CONCEPT,
    GROUP,
    MAX_TERMS,
    MAX_TEXT,
    TIER,
    VALUE,
    Term,
    Vocabulary,
    VocabularyFile,
    paper_vocabulary,
)
from obygaze_features.core.errors import FixInput
from obygaze_features.core.workspace import Workspace
from obygaze_features.manifest import Manifest, write_manifest

CLIPS = [
    replace(clip, extra={"framerate": "25"}) for clip in film_clips("lake", "lake.mp4")
]
ADA = "http://ada.filmontology.org/resource/2021/05/19/AnnotationType/CameraMovement"
OWN = Vocabulary(
    title='Camera & "gaze"',
    version="1.2",
    creators=("Eva Muster", "Ada O'Neil"),
    licence="CC-BY-4.0",
    identifier="https://doi.org/10.5281/zenodo.1",
    terms=(
        Term("power", GROUP, (), "Who decides.\nTwo lines, é"),
        Term("Look", CONCEPT, ("power",), "Who looks."),
        Term("Glance", CONCEPT, ("Look",), "", "urn:own:glance"),
        Term("Stare", CONCEPT, ("Glance",)),
        Term("Camera", TIER, (), "How it moves", ADA),
        Term("pan", VALUE, ("Camera",), "to the side"),
        Term("still", VALUE, ("Camera",)),
        Term("Voice-over", TIER),
        Term("still", VALUE, ("Voice-over",)),
    ),
)


def after_its_file(folder: Path, vocabulary: Vocabulary) -> Vocabulary:
    """Write a vocabulary, and return what is read back."""
    path = folder / "own.toml"
    path.write_text(vocabulary.to_toml(), "utf-8")
    return read_vocabulary(path)


def read_vocabulary(path: Path) -> Vocabulary:
    vocabulary, _ = VocabularyFile(path).read()
    return vocabulary


def test_a_vocabulary_is_the_same_after_its_file(tmp_path: Path) -> None:
    for vocabulary in (OWN, paper_vocabulary(), Vocabulary()):
        assert after_its_file(tmp_path, vocabulary) == vocabulary


def test_random_vocabularies_are_the_same_after_their_files(tmp_path: Path) -> None:
    draw = random.Random(7)
    letters = "aé\"\\#' /,;中"
    for _ in range(40):
        names = {"".join(draw.choices(letters, k=5)).strip() or "x" for _ in range(6)}
        terms: list[Term] = []
        for name in sorted(names):
            kinds = [GROUP, CONCEPT, TIER]
            tiers = [term.name for term in terms if term.kind == TIER]
            kind = draw.choice([*kinds, VALUE] if tiers else kinds)
            broader: tuple[str, ...] = ()
            if kind == VALUE:
                broader = (draw.choice(tiers),)
            elif kind == CONCEPT:
                above = [term.name for term in terms if term.kind in (GROUP, CONCEPT)]
                broader = tuple(draw.sample(above, min(2, len(above))))
            terms.append(Term(name, kind, broader, "".join(draw.choices(letters, k=9))))
        vocabulary = Vocabulary("t", terms=tuple(terms))
        assert after_its_file(tmp_path, vocabulary) == vocabulary


def test_concepts_stand_below_each_other_and_mark_those_above() -> None:
    assert list(OWN.concepts) == ["Look", "Glance", "Stare"]
    moved = replace(OWN, terms=(Term("Body"), *reversed(OWN.terms[:4])))
    assert list(moved.concepts) == ["Body", "Look", "Glance", "Stare"]
    assert OWN.tiers == {"Camera": ("pan", "still"), "Voice-over": ("still",)}
    assert OWN.with_concepts_above(["Stare", "Body"]) == [
        "Stare",
        "Body",
        "Glance",
        "Look",
    ]
    # The papers: five groups, and each instance below its concept.
    paper = paper_vocabulary()
    assert sum(term.kind == GROUP for term in paper.terms) == 5
    assert paper.with_concepts_above(["partial nudity"]) == ["partial nudity", "Body"]
    assert paper.problems() == []
    of_two = paper_vocabulary(["Look", "Body", "no concept of the papers"])
    assert [term.name for term in of_two.terms if term.broader == ("Look",)] == [
        "watching without being seen",
        "a gaze that is not returned",
    ]


@pytest.mark.parametrize(
    ("terms", "problem"),
    [
        ([Term("a"), Term("a")], "'a' is there twice"),
        ([Term("")], "1 to 120 letters"),
        ([Term("a|b")], "1 to 120 letters"),
        ([Term(" a")], "1 to 120 letters"),
        ([Term("a", "word")], "kind must be one of group, concept, tier, value"),
        (
            [Term("a", CONCEPT, ("b",))],
            "'a': `broader` has 'b', which is no term of this file",
        ),
        (
            [Term("a"), Term("b", GROUP, ("a",))],
            "'b': 'a' is a concept; above a group must be a group",
        ),
        ([Term("a", VALUE)], "a value has one tier"),
        (
            [Term("a"), Term("b", VALUE, ("a",))],
            "'b': 'a' is a concept; above a value must be a tier",
        ),
        ([Term("Level", TIER)], "has a column of this name"),
        ([Term("EN")], "'EN' is a level"),
        ([Term("a", uri="javascript:alert(1)")], "expected a URI"),
        ([Term("a", CONCEPT, ("b",)), Term("b", CONCEPT, ("a",))], "above itself"),
        (
            [Term("t", TIER), Term("v", VALUE, ("t",)), Term("v", VALUE, ("t",))],
            "'v' is there twice",
        ),
    ],
)
def test_what_is_no_vocabulary_is_said(
    tmp_path: Path, terms: list[Term], problem: str
) -> None:
    path = tmp_path / "own.toml"
    path.write_text(Vocabulary("t", terms=tuple(terms)).to_toml(), "utf-8")
    with pytest.raises(FixInput, match="the vocabulary is not valid") as caught:
        read_vocabulary(path)
    assert problem in "\n".join(caught.value.details)
    assert "terms[" in "\n".join(caught.value.details)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_mark_has_instances_and_values_of_tiers(tmp_path: Path) -> None:
    marks = table(tmp_path, manifest(tmp_path, CLIPS), "ada")
    first = marks.save(mark(1))
    wanted = mark(2, concepts=["Stare"], tiers={"Camera": "pan"})
    (saved,) = marks.save_all([MarkChange(wanted)], OWN)
    assert saved["concepts"] == ["Look", "Glance", "Stare"]
    row = rows_of(marks.path)[1]
    assert (row["concepts"], row["Camera"]) == ("Look|Glance|Stare", "pan")
    # A new column is no change of the marks that were there.
    changed = mark(1, version=1, state=first["state"], comment="later")
    (later,) = marks.save_all([MarkChange(changed)], OWN)
    assert (later["version"], later["more"]) == (2, {"Camera": ""})
    for tiers in ({"Camera": "zoom"}, {"Light": "low"}, ["pan"], {"Camera": ["pan"]}):
        with pytest.raises(
            FixInput, match=r"the vocabulary has no value|tiers: expected"
        ):
            marks.save_all([MarkChange(mark(3, tiers=tiers))], OWN)
    with pytest.raises(FixInput, match="unknown concept"):
        marks.save_all([MarkChange(mark(3, concepts=["Stare"]))])
    # What is not in the vocabulary any more stays in the mark that has it.
    kept = mark(2, version=1, concepts=["Stare", "Look"], tiers={}, comment="kept")
    (saved,) = marks.save_all([MarkChange(kept)])
    assert saved["concepts"] == ["Look", "Stare"]
    assert saved["more"] == {"Camera": "pan"}
    # Other commands read the table as before.
    (tmp_path / "clips.csv").write_text(
        "clip_id,movie_id,start_frame,end_frame\na,lake,0,24\n", "utf-8"
    )
    words = ("manifest", "project", "segments/films.ada.csv", "--clips", "clips.csv")
    run_obygaze(*words, "-o", "labels.csv", cwd=tmp_path).ok()
    (label,) = rows_of(tmp_path / "labels.csv")
    assert (label["level"], label["concepts"]) == ("S", "Body|Look|Stare")


def test_the_page_saves_a_vocabulary_that_nobody_else_changed(tmp_path: Path) -> None:
    values: dict[str, Any] = json.loads(json.dumps(OWN.to_json()))
    with served(site(tmp_path, CLIPS, "ada")) as server:
        before = ask(server, "/api/overview").json()
        assert list(before["concepts"]) == ["Look", "Body"]
        sent = {"vocabulary": values, "state": before["vocabulary"]["state"]}
        saved = ask(server, "/api/vocabulary", method="POST", sent=sent)
        assert saved.status == 200
        assert list(saved.json()["concepts"]) == ["Look", "Glance", "Stare", "Body"]
        assert saved.json()["concepts"]["Look"] == "Who looks."
        assert saved.json()["tiers"]["Camera"] == ["pan", "still"]
        path = tmp_path / "segments" / "films.vocabulary.toml"
        assert read_vocabulary(path) == OWN
        again = ask(server, "/api/vocabulary", method="POST", sent=sent)
        assert again.status == 400
        assert "changed in another window" in again.json()["error"]
        values["terms"][1]["broader"] = ["nothing"]
        sent["state"] = saved.json()["vocabulary"]["state"]
        wrong = ask(server, "/api/vocabulary", method="POST", sent=sent)
        assert (
            "`broader` has 'nothing', which is no term of this file"
            in wrong.json()["error"]
        )
        for bad in (None, [], {"terms": 5}, {"terms": [{"name": 5}]}, {"terms": [5]}):
            sent["vocabulary"] = bad
            assert (
                ask(server, "/api/vocabulary", method="POST", sent=sent).status == 400
            )
        assert read_vocabulary(path) == OWN
        # A mark with it; and a file that somebody damaged is said.
        wanted = mark(1, concepts=["Glance"], tiers={"Camera": "still"})
        reply = ask(server, "/api/mark", method="POST", sent=wanted).json()
        assert reply["concepts"] == ["Look", "Glance"]
        path.write_text("schema = 5\n", "utf-8")
        facts = ask(server, "/api/overview").json()
        assert "schema must be" in facts["vocabulary"]["problem"]
        assert list(facts["concepts"]) == ["Look", "Body"]


def test_the_page_saves_a_vocabulary_of_the_largest_size(tmp_path: Path) -> None:
    """Of 300 terms with definitions the page said "more than 65536 bytes"."""
    clips = [
        replace(clip, extra={"framerate": "25"}) for clip in film_clips("lake", "")
    ]
    page = site(tmp_path, clips, "eva")
    terms = [
        Term(f"Idée {number}", definition="é" * MAX_TEXT) for number in range(MAX_TERMS)
    ]
    sent = {"vocabulary": Vocabulary(terms=tuple(terms)).to_json(), "state": ""}
    body = json.dumps(sent, ensure_ascii=False).encode()
    with served(page) as server:
        answer = ask(server, "/api/vocabulary", method="POST", sent=body)
    assert answer.status == 200
    assert page.vocabulary.read()[0].terms == tuple(terms)


def test_films_without_labels_are_offered_the_concepts_of_the_papers(
    tmp_path: Path,
) -> None:
    """Marks could have no concept, and the button of the page added groups alone."""
    films = manifest(tmp_path, CLIPS)
    clips = tuple(replace(clip, level="", concepts=()) for clip in films.clips)
    bare = Manifest("films", structs.replace(films.header, concepts={}), clips)
    write_manifest(bare, tmp_path / "manifests" / "films.toml")
    words = ("view", "films", "--annotate", "ada", "--export", "page")
    said = call_obygaze(*words, cwd=tmp_path).ok().stderr
    assert "films has no concepts: the page Vocabulary adds" in said
    marks = table(tmp_path, bare, "ada")
    page = Site(Workspace(tmp_path), bare, marks=marks)
    added = {term["name"] for term in page.paper_terms() if term["kind"] == CONCEPT}
    assert "Look" in added
    page.vocabulary.path.write_text(paper_vocabulary().to_toml(), "utf-8")
    assert "Look" in page.overview()["concepts"]
    again = call_obygaze(*words[:-1], "other", cwd=tmp_path).ok().stderr
    assert "no concepts" not in again
