"""The caption and co-occurrence commands, on tables, folders and manifests."""

from __future__ import annotations

from pathlib import Path

from support.cli import call_obygaze

from obygaze.audits.cooccurrence import audit_cooc


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# ---- captions ----------------------------------------------------------------------------------


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


# ---- co-occurrence -----------------------------------------------------------------------------


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
