"""Values that papers print: the program has the same, and shows them where they belong."""

from __future__ import annotations

import csv

from support.cli import ROOT

from obygaze.audits.printed import published_shares, published_shares_of

PRINTED = ROOT / "tests" / "data" / "papers" / "printed.csv"


def cells_of(place: str) -> dict[tuple[str, str], str]:
    """Return the cells of a printed table, by row and column."""
    with PRINTED.open(encoding="utf-8", newline="") as stream:
        rows = [one for one in csv.DictReader(stream) if one["place"] == place]
    return {(one["row"], one["column"]): one["value"] for one in rows}


def test_shares_are_those_of_the_poster() -> None:
    of_models = cells_of("gender bias ratio table")
    shares = published_shares()
    assert len(shares) == 7
    for model, of_model in shares.items():
        name = f"Gender Score, {model}"
        printed = (of_models[name, "to-m"], of_models[name, "to-w"])
        assert of_model == tuple(map(float, printed))
    of_things = cells_of("object bias ratio table")
    for thing in ("skateboard", "kitchen", "motorcycle", "baseball"):
        beside = published_shares_of(thing)
        assert list(beside) == list(shares)
        for model, of_model in beside.items():
            name = f"Object Gender Co-Occ, {model}"
            columns = (f"{thing}, toward men", f"{thing}, toward women")
            printed = [float(of_things[name, column]) for column in columns]
            assert list(of_model) == printed
    assert published_shares_of("baseball bat") == {}
