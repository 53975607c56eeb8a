"""The caption and co-occurrence commands, on tables, folders and manifests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import call_obygaze

from obygaze.audits.captions import audit_captions
from obygaze.audits.cooccurrence import audit_cooc
from obygaze.audits.gender import cut_shares

# Sabir and Padro's poster: counts of man and woman, and the two ratios it prints for them.
POSTER = """\
792,408,0.66,0.34
770,368,0.67,0.32
702,311,0.69,0.30
845,409,0.67,0.32
775,385,0.66,0.33
769,381,0.66,0.33
695,356,0.66,0.33
616,217,0.73,0.26
527,213,0.71,0.28
526,161,0.76,0.23
630,237,0.72,0.27
554,240,0.69,0.30
537,251,0.68,0.31
498,239,0.67,0.32
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# ---- captions ----------------------------------------------------------------------------------

CAPTIONS = """\
caption,condition,image
a sad man,O,1
a sad sad man,O,2
a happy man,O,3
a man,N,4
a happy man,N,5
a man,N,6
"""


def test_rates_and_contrast_of_a_table(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", CAPTIONS)
    words = ("audit", "captions", table, "--group", "condition", "--cluster", "image")
    document = call_obygaze(*words, "--json").ok().json()
    rate = next(r for r in document["rates"] if (r["group"], r["words"]) == ("O", "SA"))
    assert (rate["count"], rate["captions_with_hit"], rate["n_clusters"]) == (3, 2, 3)
    assert rate["occurrences_per_1000"] == 1000
    assert rate["captions_with_hit_per_1000"] == pytest.approx(2000 / 3)
    # Images have 1, 2, 0 | 0, 0, 0 sad words: a sum of 3 for 4 of the 20 ways to choose three.
    sad = next(c for c in document["contrasts"] if c["words"] == "SA")
    assert (sad["first"], sad["second"], sad["p"]["less"]) == ("N", "O", 4 / 20)
    done = call_obygaze(
        *words, "--figure", tmp_path / "f", "--table", tmp_path / "r.csv"
    ).ok()
    assert "whole clusters were exchanged" in done.stdout
    assert (tmp_path / "f.svg").exists()
    assert len((tmp_path / "r.csv").read_text("utf-8").splitlines()) == 1 + 2 * 3


def test_tables_with_semicolons(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", CAPTIONS.replace(",", ";"))
    words = ("audit", "captions", table, "--group", "condition", "--json")
    assert len(call_obygaze(*words).ok().json()["rates"]) == 6


def test_file_names_in_a_folder_give_columns(tmp_path: Path) -> None:
    folder = tmp_path / "captions"
    write(folder / "1_SA1_NO_1.txt", "a sad face\na face\n")
    write(folder / "1_SA1_O_1.txt", "a face")
    words = (
        "audit",
        "captions",
        folder,
        "--group",
        "group,face",
        "--cluster",
        "image,face",
    )
    document = call_obygaze(*words, "--json").ok().json()
    sad = {
        r["group"]: r["occurrences_per_1000"]
        for r in document["rates"]
        if r["words"] == "SA"
    }
    assert sad == {"NO SA1": 500.0, "O SA1": 0.0}
    write(folder / "odd.txt", "a face")
    done = call_obygaze(*words)
    assert (done.code, "odd.txt does not match the pattern" in done.stderr) == (1, True)
    done = call_obygaze("audit", "captions", folder, "--group", "film")
    assert (done.code, "no column 'film'" in done.stderr) == (1, True)


def test_published_folder_by_the_command(tmp_path: Path) -> None:
    from support.data import golden

    cases = json.loads(golden("audits", "captions.json").read_text("utf-8"))[
        "synthetic"
    ]
    for name, text in cases["files"].items():
        write(tmp_path / "c" / name, text)
    # Each image has captions of both groups, so that no test delays the rates.
    words = ("audit", "captions", tmp_path / "c", "--group", "group,face")
    words = (*words, "--cluster", "image", "--tokens", "authors", "--json")
    rates = call_obygaze(*words).ok().json()["rates"]
    for expected in cases["expected"]:
        group = "NO" if expected["condition"] == "Nonobjectified" else "O"
        key = (f"{group} {expected['emotion']}", expected["emotion"][:2])
        rate = next(rate for rate in rates if (rate["group"], rate["words"]) == key)
        for name in (
            "count",
            "n_captions",
            "occurrences_per_1000",
            "captions_with_hit_per_1000",
        ):
            assert rate[name] == pytest.approx(expected[name])


# ---- co-occurrence -----------------------------------------------------------------------------


def test_the_posters_ratios_from_its_counts() -> None:
    rows = [line.split(",") for line in POSTER.splitlines()]
    printed = [share for row in rows for share in cut_shares(int(row[0]), int(row[1]))]
    assert len(printed) == 28
    # 770 of 1138 is .6766: rounded it would be .68, the poster has .67.
    assert printed == [float(cell) for row in rows for cell in row[2:]]


def test_texts_without_gendered_words_are_reported(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", "caption,concepts\na tree,Look\n")
    done = call_obygaze("audit", "cooc", table, "--things", "concepts").ok()
    assert "No text with a thing has a word of man or woman" in done.stdout


@pytest.mark.check("large figures")
@pytest.mark.parametrize(
    ("n_groups", "is_said"), [(21, True), (20, False)], ids=["more", "all"]
)
def test_a_figure_says_how_many_rates_it_leaves_out(
    tmp_path: Path, n_groups: int, is_said: bool
) -> None:
    rows = [{"caption": "a man", "group": f"g{i:02d}"} for i in range(n_groups)]
    words = {"man": frozenset({"man"}), "woman": frozenset({"woman"})}
    audit = audit_captions(rows, words=words)
    audit.write(figure=tmp_path / "figure")
    svg = (tmp_path / "figure.svg").read_text("utf-8")
    assert ("(40 of 42 rows)" in svg) == is_said
    assert ("rows)" in svg) == is_said


def test_gendered_words_are_found_beside_punctuation() -> None:
    captions = [
        'the "man" rides',
        "a rider (he) jumps",
        "the woman's horse!",
        "she's up; her—bag",
    ]
    rows = [{"caption": text, "concepts": "horse"} for text in captions]
    (horse,) = audit_cooc(rows, things="concepts")["things"]
    assert horse["counts"] == {"man": 2, "woman": 2}
    # Not inside longer words.
    (other,) = audit_cooc(
        [{"caption": "a human, shepherd", "concepts": "x"}], things="concepts"
    )["things"]
    assert other["counts"] == {"man": 0, "woman": 0}
