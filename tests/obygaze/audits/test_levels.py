"""Concepts by level and annotator: by hand, against enumeration, and on published labels."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from support.annotated import annotated

from obygaze.audits import audit_levels
from obygaze.audits.result import Audit
from obygaze_features.core.errors import FixInput, NotFound
from obygaze_features.manifest.model import Clip, Header, Manifest

NAMES = dict.fromkeys("ABCDEFGH", "visual")


def manifest(numbers: dict[str, dict[str, list[list[int]]]]) -> Manifest:
    """Clips of each annotator and level: a list for each film with the numbers of concepts."""
    clips = []
    for annotator, by_level in numbers.items():
        extra = {"annotator": annotator}
        for level, films in by_level.items():
            for film, counts in enumerate(films):
                for i, n in enumerate(counts):
                    ids = (f"{annotator}-{level}-{film}-{i}", f"film{film}")
                    label = {"level": level, "concepts": tuple("ABCDEFGH"[:n])}
                    clips.append(Clip(*ids, **label, extra=extra))
    return Manifest("toy", Header("toy", NAMES), tuple(clips), ("annotator",))


# Of six films, one without NS: ada's number rises in all, ben's falls from NS to S.
ADA = {
    "HN": [[1, 1], [1], [2], [1, 2], [1], [1]],
    "NS": [[2], [2, 3], [3], [2], [2], [3]],
    "S": [[4], [3], [4, 5], [3], [4], [4]],
}
BEN = {
    "HN": [[1], [1], [1], [1], [1], [1]],
    "NS": [[3], [3], [4], [3], [3], [3]],
    "S": [[2], [3], [2], [2], [2], [4]],
}


def of(audit: Audit, name: str) -> dict[str, Any]:
    (annotator,) = [item for item in audit["annotators"] if item["annotator"] == name]
    return annotator


def enumerated(differences: list[float]) -> float:
    """The share of the patterns of signs whose mean is as high as the observed one."""
    observed = np.mean(differences)
    means = [
        np.mean(np.multiply(signs, differences))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return float(np.mean([mean >= observed - 1e-12 for mean in means]))


def test_means_and_steps_by_hand_and_p_by_enumeration() -> None:
    audit = audit_levels(manifest({"ada": ADA, "ben": BEN}))
    names = [item["annotator"] for item in audit["annotators"]]
    assert names == ["all annotators", "ada", "ben"]
    assert len({*audit.headers}) == len(audit.headers)
    ada = of(audit, "ada")
    counts = [(level["n_clips"], level["n_films"]) for level in ada["levels"]]
    assert counts == [(8, 6), (7, 6), (7, 6)]
    means = [level["mean"] for level in ada["levels"]]
    assert means == pytest.approx([10 / 8, 17 / 7, 27 / 7])
    first, second = ada["steps"]
    rises = [2 - 1, 2.5 - 1, 3 - 2, 2 - 1.5, 2 - 1, 3 - 1]
    assert first["difference"] == pytest.approx(np.mean(rises))
    assert (first["n_films"], first["n_rising"]) == (6, 6)
    assert first["p"] == pytest.approx(1 / 64) == enumerated(rises)
    assert second["p"] == pytest.approx(1 / 64)
    ben = of(audit, "ben")
    falls = [2 - 3, 3 - 3, 2 - 4, 2 - 3, 2 - 3, 4 - 3]
    assert ben["steps"][1]["difference"] == pytest.approx(np.mean(falls))
    assert ben["steps"][1]["p"] == pytest.approx(enumerated(falls))
    # The claim is about every annotator: its p is the largest.
    assert audit["p"] == ben["steps"][1]["p"]
    assert not audit["rises"]
    assert "rises from HN to NS to S for 1 of 2 annotators" in str(audit)


def test_levels_of_annotations_are_those_of_each_person() -> None:
    """Each gave a level to clips of their own: the same numbers as with a column of names."""
    by_column = manifest({"ada": ADA, "ben": BEN})
    said: dict[str, dict[str, dict[str, Any]]] = {"ada": {}, "ben": {}}
    for clip in by_column:
        label = {"level": clip.level, "concepts": clip.concepts}
        said[clip.extra["annotator"]][f"{clip.movie_id}-{clip.clip_id}"] = label
    films = annotated(said, tuple("ABCDEFGH"))
    audit = audit_levels(films)
    assert audit["annotators"] == audit_levels(by_column)["annotators"]
    assert audit["p"] == audit_levels(by_column)["p"]
    others = (
        Clip("film0-x", "film0", level="S", concepts=("B",)),
        Clip("film0-y", "film0"),
    )
    text = str(audit_levels(replace(films, clips=(*films.clips, *others))))
    assert "Excluded, because no annotator is named: 1 clip." in text
    assert "Excluded, because the level is missing: 1 clip." in text
    # The view is that of what they said: what is only heard is an easy negative.
    heard = Header("films", {**NAMES, "A": "audio"})
    visual = audit_levels(replace(films, header=heard))
    of_ada = {level["level"]: level["n_clips"] for level in of(visual, "ada")["levels"]}
    assert of_ada == {"HN": 2, "NS": 7, "S": 7}


def test_levels_by_a_column_of_clips() -> None:
    """A film of two genres is one of each; all clips together are beside them."""
    genre_of = {"film0": "drama", "film1": "drama|comedy"}
    films = manifest({"ada": ADA})
    genres = {clip.clip_id: genre_of.get(clip.movie_id, "comedy") for clip in films}
    audit = audit_levels(films.with_column("genre", genres), by="genre")
    names = [one["annotator"] for one in audit["annotators"]]
    assert names == ["all clips", "comedy", "drama"]
    means = [level["mean"] for level in of(audit, "drama")["levels"]]
    assert means == pytest.approx([3 / 3, 7 / 3, 7 / 2])
    assert "rises from HN to NS to S for 2 of 2 genres" in str(audit)
    assert audit.headers[0] == "genre"
    with pytest.raises(NotFound, match="column 'gnre'"):
        audit_levels(films, by="gnre")
    easy = Manifest("easy", films.header, (Clip("a-1", "a", level="EN"),))
    with pytest.raises(FixInput, match="no clip has the level HN, NS or S"):
        audit_levels(easy)


def test_equal_means_of_fractions_are_no_rise() -> None:
    """Of three annotators, 4/3 and 2 have the mean 5/3, as 1, 2 and 2; their sums are rounded."""
    of_clips = {"HN": [(2, 1, 1), (2, 2, 2)], "NS": [(1, 1, 1), (2, 2, 2), (2, 2, 2)]}
    said: dict[str, dict[str, dict[str, Any]]] = {"ada": {}, "ben": {}, "cleo": {}}
    for film in range(6):
        for level, numbers in of_clips.items():
            for place, of_annotators in enumerate(numbers):
                for name, n in zip(said, of_annotators, strict=True):
                    label = {"level": level, "concepts": tuple("ABCDEFGH"[:n])}
                    said[name][f"film{film}-{place}{level}"] = label
    several = annotated(said, tuple(NAMES))
    step = of(audit_levels(several), "all annotators")["steps"][0]
    assert (step["n_films"], step["n_rising"], step["p"]) == (6, 0, 1)
    assert step["difference"] == 0
