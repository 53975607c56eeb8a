import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stores import made_store, sealed_store
from support.written_stores import MANIFEST, a_recipe, some_values

from obygaze_features.core.errors import FixUsage
from obygaze_features.store.card import Terms, card_of_store, read_terms, with_terms
from obygaze_features.store.describing import StorePage, describe
from obygaze_features.store.layout import Array
from obygaze_features.store.reading import open_store
from obygaze_features.store.recipe import Recipe
from obygaze_features.store.records import Maker, Origin, StoreRecord
from obygaze_features.store.rows import FAILED, NO_VIDEO, Counts, Row, RowColumns

ARRAYS = (Array.of("clip", "float32", (8,)), Array.of("frames", "float16", (3, 4)))
TERMS = Terms("CC-BY-4.0", "Doe, J. (2026). Gazes at the lake.")
HOSTILE = (
    "CC0\n\n# Fake heading\n\n---\nlicence      MIT\n[here](javascript:alert(1)) "
    "<script>alert(1)</script> `code` | cell |\n- item\n\x1b[2J\x1b[8mhidden\u202egnp.\u2028next"
)


def some_rows() -> list[Row]:
    """Five clips, of which one failed and one has no video."""
    rows = [Row(f"lake-{number}", "lake") for number in range(5)]
    rows[1] = rows[1]._replace(status=FAILED, reason="clip holds NaN or infinity")
    rows[3] = rows[3]._replace(status=NO_VIDEO, reason="no file")
    return rows


def a_card(terms: Terms = TERMS, **facts: Any) -> str:
    """A card of `some_rows`; it says nothing of the files of the store."""
    rows = some_rows()
    given = {
        "created": "2026-02-03T00:00:00+00:00",
        "program": "obygaze 1.0",
        "manifest": MANIFEST,
        "recipe": a_recipe().to_json(),
        "fingerprint": a_recipe().fingerprint,
        "columns": (),
        "arrays": ARRAYS,
        "rows": Counts(len(rows), ok=3, failed=1, no_video=1),
        "files": {},
    }
    record = StoreRecord(**(given | facts))
    return card_of_store(record, RowColumns.of(rows), terms, "cd" * 32)


def test_a_card_has_the_counts_sizes_makers_and_changes_of_the_store() -> None:
    maker = Maker("obygaze 1.0", "cuda", "H100", "tf32", {"torch": "2.9", "av": "18"})
    origins = (Origin("first-films", "ef" * 32), Origin("third_film", "12" * 32))
    card = a_card(makers=(maker,), replaces=("ab" * 32,), origins=origins)
    for words in (
        "features of clips of the manifest 'films', in 5 rows. Of the rows, 3 ok, 1 failed",
        "| `clip` | 8 | float32 | 160 B |",
        "| `frames` | 3 x 4 | float16 | 120 B |",
        "- obygaze 1.0 on cuda (H100), tf32, av 18, torch 2.9",
        "| 1 | failed | clip holds NaN or infinity |",
        f"Fingerprint of the recipe: `{a_recipe().fingerprint}`",
        f"History: replaced the store with the seal {'ab' * 32}",
        f"Made from: first-films ({'ef' * 32})\n\nMade from: third_film ({'12' * 32})",
        f"Seal: `sha256:{'cd' * 32}`",
    ):
        assert words in card


def test_a_card_says_whether_pictures_are_in_the_store() -> None:
    claim = "No film, no image, no sound and no subtitle is part of this store"
    card = a_card()
    assert claim in card and "# Features of films" in card
    pictures = Array.of("pictures", "uint8", (2, 4, 4, 3))
    card = a_card(arrays=(pictures,))
    assert claim not in card and "## What is not inside" not in card
    assert "Pictures of films are part of this store: the array `pictures`" in card
    assert "what models made" not in card and "# Pictures of films" in card
    # What somebody imported may be pictures under another name.
    unknown = Recipe.from_json({"unknown": True, "source": "numpy"})
    card = a_card(recipe=unknown.to_json(), fingerprint=unknown.fingerprint)
    assert claim not in card
    assert "It is not known whether the imported numbers are pictures." in card


@pytest.mark.parametrize(
    ("head", "terms"),
    [
        ("license: 'mit'\ncitation: 'Doe''s paper'", Terms("MIT", "Doe's paper")),
        ('license: other\nlicense_name: "ask: me"', Terms("ask: me")),
        ("license: \"mit\" # ours\ncitation: 'Roe''s' # both", Terms("MIT", "Roe's")),
        (
            "citation: 'Doe: On\n  the lake,\n\n  2026'",
            Terms("", "Doe: On the lake, 2026"),
        ),
        (
            'citation: "Doe: On\n  the lake"\nlicense: mit',
            Terms("MIT", "Doe: On the lake"),
        ),
        ("license: ~\ncitation: null", Terms()),
        ("license: [mit]", Terms("MIT")),
        ("license: [ 'cc-by-4.0' ] # ours", Terms("CC-BY-4.0")),
        ("license: []", Terms()),
        ("tags:\n  - license: mit\nlicense: odbl", Terms("ODbL-1.0")),
        ("citation: |\n  Doe.\n  #3.\nlicense: mit", Terms("MIT", "Doe. #3.")),
        ("citation: >- # two\n  Doe.\n\n  Roe.", Terms("", "Doe. Roe.")),
        ("citation: | \n  Doe.\nlicense: # later", Terms("", "Doe.")),
        ("license: mit\ncitation: >-", Terms("MIT")),
        ("citation: |2+\n  Doe.\nlicense: 'mit' # it's", Terms("MIT", "Doe.")),
    ],
)
def test_a_head_that_a_person_edited_is_read(head: str, terms: Terms) -> None:
    card = f"---\n{head}\n---\n# Features\n\nlicense: mit\n"
    assert read_terms(card.encode()) == terms
    assert read_terms(card.replace("\n", "\r\n").encode()) == terms
    yaml = pytest.importorskip("yaml")
    facts = yaml.safe_load(head) or {}
    assert (facts.get("citation") or "").split() == terms.citation.split()


def test_a_card_without_makers_says_nothing_of_them() -> None:
    assert "None" not in a_card(makers=())


@pytest.mark.parametrize("card", [b"# No head\nlicense: mit", b"---\nlicense: mit\n"])
def test_a_card_without_a_head_states_no_terms(card: bytes) -> None:
    assert read_terms(card) == Terms()


TEXTS = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    [HOSTILE, "---", "'", '"', "|", "# a", "a: b", "null", "[x]", "other", "\\"]
)


@settings(max_examples=10)
@given(licence=TEXTS, citation=TEXTS)
def test_any_terms_there_and_back(licence: str, citation: str) -> None:
    yaml = pytest.importorskip("yaml")
    card = a_card(Terms(licence, citation))
    terms = read_terms(card.encode())
    head = yaml.safe_load(card.split("\n---\n")[0])
    if head["license"] == "other":
        assert terms.licence == head["license_name"]
    assert terms.citation == head.get("citation", "")
    # Once they are in a card, they stay as they are.
    again = with_terms(a_card().encode(), terms)
    assert read_terms(again) == terms


def test_other_terms_change_nothing_else() -> None:
    card = a_card()
    other = Terms("CC0-1.0", "Roe, R. (2027).")
    assert with_terms(card.encode(), other).decode() != card
    changed = with_terms(card.encode(), other)
    assert read_terms(changed) == other
    assert "\nLicence: CC0-1.0\n\nRoe, R. (2027).\n" in changed.decode()
    assert with_terms(changed, TERMS) == card.encode()
    unstated = "Licence: not stated\n\nNo citation was given.\n"
    assert unstated in with_terms(changed, Terms()).decode()
    edited = b"---\ntags:\n  - mine\nlicense: mit\ncitation: |\n  A\n  B\nmore: x\n---\nMine."
    assert with_terms(edited, other) == (
        b'---\nlicense: cc0-1.0\ncitation: "Roe, R. (2027)."\ntags:\n  - mine\nmore: x\n---\nMine.'
    )


@pytest.mark.check("imports zarr and xarray")
def test_the_code_in_the_card_reads_the_store(tmp_path, monkeypatch) -> None:
    rows = [Row(f"clip {number}", "lake", 1.0, 2.5) for number in range(12)]
    values = {array.name: some_values(array, len(rows)) for array in ARRAYS}
    store = made_store(tmp_path / "toy", rows, values, arrays=ARRAYS)
    card = (tmp_path / "toy" / "README.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", card, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path / "toy")
    found: dict[str, Any] = {}
    *without_obygaze, of_obygaze = blocks
    for block in without_obygaze:
        assert "obygaze" not in block
        exec(block.replace("path/of/this/folder", str(Path.cwd())), found)
    wanted = store.matrix("clip").values
    np.testing.assert_array_equal(found["features"], wanted)
    np.testing.assert_array_equal(found["data"]["clip"].values, wanted)
    assert found["clips"].tolist() == store.clip_ids.tolist()
    exec(of_obygaze.replace("path/of/this/folder", str(Path.cwd())), found)
    np.testing.assert_array_equal(found["features"].values, wanted)


def test_a_mark_before_the_head_and_another_encoding_hide_nothing() -> None:
    """Some editors write a byte order mark."""
    card = b"\xef\xbb\xbf" + a_card().encode()
    assert read_terms(card) == TERMS
    assert with_terms(card, Terms("MIT")).startswith(b"---\nlicense: mit\n")
    new = with_terms(a_card(Terms()).encode() + b"caf\xe9\n", TERMS)
    assert new.endswith(b"caf\xe9\n") and read_terms(new) == TERMS
    doe = Terms("MIT", "Müller, 2026")
    for encoding in ("cp1252", "utf-16"):
        saved = a_card(doe).encode(encoding)
        assert read_terms(saved) == doe
        assert read_terms(with_terms(saved, TERMS)) == TERMS
    with pytest.raises(FixUsage, match="is not UTF-8"):
        with_terms(card, Terms("MIT", "\udcc9ric"))


def test_the_page_of_a_store_fits_on_a_terminal(tmp_path: Path) -> None:
    sealed_store(tmp_path / "stores" / "seen")
    store = open_store(tmp_path / "stores" / "seen")
    lines = describe(store).splitlines()
    # A path is not divided.
    assert max(map(len, lines[1:])) <= 80
    labels = [line.split()[0] for line in lines[: lines.index("")]]
    assert labels[:4] == ["Store", "Clips", "Films", "Features"]
    assert labels[-4:] == ["Licence", "Cite", "Recipe", "Seal"]
    whole = StorePage("seen", store).details
    assert f"fingerprint: {store.fingerprint}" in whole
    values = dict(line.split(": ", 1) for line in whole)
    assert values["backbone.name"] == store.recipe.to_json()["backbone"]["name"]
