"""Vocabularies: a file that can be cited, exchanged with ELAN and SKOS, and used in marks."""

from __future__ import annotations

import csv
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from support.cli import call_obygaze, run_obygaze
from support.film_pages import ask, film_clips, manifest, mark, served, site, table

from obygaze.extensions.annotate.marks import MarkChange
from obygaze.extensions.annotate.site import Site
from obygaze.extensions.annotate.vocabulary import (
    CONCEPT,
    GROUP,
    MAX_TERMS,
    MAX_TEXT,
    TIER,
    VALUE,
    Term,
    Vocabulary,
    convert_vocabulary,
    paper_vocabulary,
    read_vocabulary,
)
from obygaze_features.core.errors import FixInput, FixUsage
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


def written(folder: Path, vocabulary: Vocabulary, name: str) -> Path:
    path = folder / name
    (folder / "source.toml").write_text(vocabulary.to_toml(), "utf-8")
    convert_vocabulary(folder / "source.toml", out=path, force=True)
    return path


@pytest.mark.parametrize("name", ["copy.toml", "copy.jsonld"])
def test_a_vocabulary_is_the_same_after_its_file(tmp_path: Path, name: str) -> None:
    for vocabulary in (OWN, paper_vocabulary(), Vocabulary()):
        path = written(tmp_path, vocabulary, name)
        assert read_vocabulary(path) == vocabulary
        before = path.read_bytes()
        assert written(tmp_path, vocabulary, name).read_bytes() == before


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
        for file in ("copy.toml", "copy.jsonld"):
            assert read_vocabulary(written(tmp_path, vocabulary, file)) == vocabulary


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


EAF = f"""<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT>
  <HEADER/>
  <CONTROLLED_VOCABULARY CV_ID="Einstellung">
    <DESCRIPTION LANG_REF="deu">Wie nah</DESCRIPTION>
    <CV_ENTRY_ML CVE_ID="c1" EXT_REF="er1">
      <CVE_VALUE LANG_REF="deu" DESCRIPTION="ganz nah">nah</CVE_VALUE>
      <CVE_VALUE LANG_REF="eng" DESCRIPTION="close">close</CVE_VALUE>
    </CV_ENTRY_ML>
    <CV_ENTRY_ML CVE_ID="c2"><CVE_VALUE LANG_REF="deu">weit</CVE_VALUE></CV_ENTRY_ML>
  </CONTROLLED_VOCABULARY>
  <CONTROLLED_VOCABULARY CV_ID="Konzepte">
    <CV_ENTRY DESCRIPTION="Blick">Look</CV_ENTRY><CV_ENTRY>Body</CV_ENTRY>
    <CV_ENTRY>Licht</CV_ENTRY>
  </CONTROLLED_VOCABULARY>
  <CONTROLLED_VOCABULARY CV_ID="level">
    <CV_ENTRY>EN</CV_ENTRY><CV_ENTRY>S</CV_ENTRY>
  </CONTROLLED_VOCABULARY>
  <EXTERNAL_REF EXT_REF_ID="er1" TYPE="resource_url" VALUE="{ADA}"/>
</ANNOTATION_DOCUMENT>
"""


def test_controlled_vocabularies_of_elan_become_tiers_and_concepts(
    tmp_path: Path,
) -> None:
    (tmp_path / "own.eaf").write_text(EAF, "utf-8")
    assert read_vocabulary(tmp_path / "own.eaf").terms == (
        Term("Einstellung", TIER, (), "Wie nah"),
        Term("nah", VALUE, ("Einstellung",), "ganz nah", ADA),
        Term("weit", VALUE, ("Einstellung",)),
        Term("Look", CONCEPT, (), "Blick"),
        Term("Body", CONCEPT),
        Term("Licht", CONCEPT),
    )
    entity = '<!DOCTYPE a [<!ENTITY b "c">]>'
    (tmp_path / "bad.eaf").write_text(EAF.replace("<ANN", f"{entity}<ANN", 1), "utf-8")
    with pytest.raises(FixInput, match="a document type is not allowed"):
        read_vocabulary(tmp_path / "bad.eaf")


def test_elan_gets_concepts_and_tiers_with_their_uris(tmp_path: Path) -> None:
    path = written(tmp_path, OWN, "own.ecv")
    root = ElementTree.fromstring(path.read_bytes())
    assert root.tag == "CV_RESOURCE"
    refs = {
        one.get("EXT_REF_ID"): one.get("VALUE") for one in root.iter("EXTERNAL_REF")
    }
    assert set(refs.values()) == {"urn:own:glance"}
    found = {}
    for vocabulary in root.iter("CONTROLLED_VOCABULARY"):
        entries = [
            (value.text, value.get("DESCRIPTION"), refs.get(entry.get("EXT_REF")))
            for entry in vocabulary.iter("CV_ENTRY_ML")
            for value in entry
        ]
        found[vocabulary.get("CV_ID")] = entries
    assert found == {
        "concept": [
            ("Look", "Who looks.", None),
            ("Glance", "", "urn:own:glance"),
            ("Stare", "", None),
        ],
        "Camera": [("pan", "to the side", None), ("still", "", None)],
        "Voice-over": [("still", "", None)],
    }
    ids = [entry.get("CVE_ID") for entry in root.iter("CV_ENTRY_ML")]
    assert len(set(ids)) == len(ids) == 6
    # What ELAN has no place for is missing: groups, what is above, the URI of a tier.
    back = read_vocabulary(path)
    assert back.concepts == OWN.concepts
    assert back.tiers == OWN.tiers


def test_skos_has_the_hierarchy_and_the_same_terms_of_others(tmp_path: Path) -> None:
    path = written(tmp_path, OWN, "own.jsonld")
    scheme, *nodes = json.loads(path.read_bytes())["@graph"]
    assert scheme["@id"] == "https://doi.org/10.5281/zenodo.1"
    node_of = {node["@id"].partition("#")[2]: node for node in nodes}
    assert len(node_of) == len(OWN.terms)
    assert node_of["Glance"]["skos:broader"] == [{"@id": f"{scheme['@id']}#Look"}]
    assert node_of["Camera"]["skos:exactMatch"] == {"@id": ADA}
    assert node_of["value/Camera/pan"]["skos:definition"] == "to the side"
    for text in ("", "[]", "{}", '{"@graph": [1]}', '{"@graph": [{}, {"@id": "a"}]}'):
        path.write_text(text, "utf-8")
        with pytest.raises(FixInput, match="not a vocabulary of this program"):
            read_vocabulary(path)


def test_a_file_of_elan_without_a_vocabulary_is_refused(tmp_path: Path) -> None:
    """An empty vocabulary was written without a word."""
    path = tmp_path / "film.eaf"
    value = '<CVE_VALUE LANG_REF="eng">HN</CVE_VALUE>'
    entry = f'<CV_ENTRY_ML CVE_ID="c1">{value}</CV_ENTRY_ML>'
    of_levels = f'<CONTROLLED_VOCABULARY CV_ID="l">{entry}</CONTROLLED_VOCABULARY>'
    for inside in ("", of_levels):
        path.write_text(f"<ANNOTATION_DOCUMENT>{inside}</ANNOTATION_DOCUMENT>", "utf-8")
        with pytest.raises(FixInput, match="no controlled vocabulary"):
            convert_vocabulary(path, out=tmp_path / "own.toml")
    assert not (tmp_path / "own.toml").exists()


def test_the_command_writes_and_prints(tmp_path: Path) -> None:
    words = ("manifest", "vocabulary", "paper")
    printed = run_obygaze(*words, cwd=tmp_path).ok().stdout
    assert "partial nudity" in printed
    said = run_obygaze(*words, "-o", "own.toml", cwd=tmp_path).ok().stdout
    assert said == "own.toml: 5 groups, 34 concepts\n"
    assert read_vocabulary(tmp_path / "own.toml") == paper_vocabulary()
    (tmp_path / "own.toml").write_text("mine", "utf-8")
    again = call_obygaze(*words, "-o", "own.toml", cwd=tmp_path)
    assert again.code != 0
    assert (tmp_path / "own.toml").read_text("utf-8") == "mine"
    call_obygaze(*words, "-o", "own.toml", "--force", cwd=tmp_path).ok()
    wrong = call_obygaze(*words, "-o", "own.owl", cwd=tmp_path)
    assert (wrong.code, ".toml, .jsonld, .ecv" in wrong.stderr) == (2, True)
    with pytest.raises(FixUsage, match="expected paper, or a file named"):
        (tmp_path / "own.owl").write_text("", "utf-8")
        read_vocabulary(tmp_path / "own.owl")


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


def test_terms_of_the_papers_name_their_source_in_skos(tmp_path: Path) -> None:
    paper = paper_vocabulary()
    changed = replace(paper.terms[0], definition="In other words.")
    own = Term("glint", definition="A light in an eye.")
    terms = (changed, *paper.terms[1:], own)
    vocabulary = replace(paper, creators=("Marie Dupont",), terms=terms)
    path = tmp_path / "films.toml"
    path.write_text(vocabulary.to_toml(), "utf-8")
    convert_vocabulary(path, out=tmp_path / "films.jsonld")
    _, *nodes = json.loads((tmp_path / "films.jsonld").read_text("utf-8"))["@graph"]
    source_of = {node["skos:prefLabel"]: node.get("dct:source") for node in nodes}
    assert source_of["Look"] == "ObyGaze12, Table 1"
    assert source_of["a man's gaze on a woman"] == "ObyGaze12, Table 1"
    assert source_of["glint"] is None
    assert source_of[changed.name] is None
    assert read_vocabulary(tmp_path / "films.jsonld") == vocabulary


def test_own_words_in_ecv_are_not_called_english(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(Vocabulary(terms=(Term("reflet"),)).to_toml(), "utf-8")
    convert_vocabulary(path, out=tmp_path / "own.ecv")
    root = ElementTree.parse(tmp_path / "own.ecv").getroot()
    assert [one.get("LANG_ID") for one in root.iter("LANGUAGE")] == ["und"]
    assert {one.get("LANG_REF") for one in root.iter("CVE_VALUE")} == {"und"}


def test_films_without_labels_are_offered_the_concepts_of_the_papers(
    tmp_path: Path,
) -> None:
    """Marks could have no concept, and the button of the page added groups alone."""
    films = manifest(tmp_path, CLIPS)
    clips = tuple(replace(clip, level="", concepts=()) for clip in films.clips)
    bare = Manifest("films", replace(films.header, concepts={}), clips)
    write_manifest(bare, tmp_path / "manifests" / "films.toml")
    words = ("view", "films", "--annotate", "ada", "--export", "page")
    said = call_obygaze(*words, cwd=tmp_path).ok().stderr
    command = "obygaze manifest vocabulary paper -o "
    assert f"films has no concepts: {command}" in said
    path = said.partition(command)[2].split()[0]
    marks = table(tmp_path, bare, "ada")
    page = Site(Workspace(tmp_path), bare, marks=marks)
    added = {term["name"] for term in page.paper_terms() if term["kind"] == CONCEPT}
    assert "Look" in added
    call_obygaze("manifest", "vocabulary", "paper", "-o", path, cwd=tmp_path).ok()
    assert "Look" in page.overview()["concepts"]
    again = call_obygaze(*words[:-1], "other", cwd=tmp_path).ok().stderr
    assert "no concepts" not in again
