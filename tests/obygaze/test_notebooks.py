"""What a notebook shows of a store, a manifest and a run: facts, sentences, and never markup."""

from html.parser import HTMLParser
from pathlib import Path

import numpy as np
from support.experiments import films, planted, quick, run_on, store_of
from support.stores import made_store

from obygaze_features.manifest.model import Header, Manifest
from obygaze_features.store import Row
from obygaze_models.runner.text import printable_run

HOSTILE = "<script>alert(1)</script>"


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_store_a_manifest_and_a_run_have_a_table_in_a_notebook(tmp_path) -> None:
    manifest = films(5, 8)
    store = store_of(tmp_path / "s", manifest, planted(manifest))
    changes = ('grid.models=["ridge"]',)
    run = run_on(
        tmp_path, quick("honest", *changes, replicates=20), manifest, {"seen": store}
    )
    of_store = Tags(store._repr_html_()).text
    assert "40 ok" in of_store and "clip (40 x" in of_store
    assert "40 clips of 5 films" in Tags(manifest._repr_html_()).text
    of_run = Tags(printable_run(run)._repr_html_())
    assert "ridge is not tested against a random order" in of_run.text
    assert of_run.tags == {"div", "p", "b", "table", "tr", "th", "td"}


def test_names_are_text_in_a_notebook(tmp_path: Path) -> None:
    header = Header("films", {}, licence=HOSTILE, citation=HOSTILE)
    shown = Tags(Manifest(HOSTILE, header, ())._repr_html_())
    assert "script" not in shown.tags and HOSTILE in shown.text
    store = made_store(
        tmp_path / "s", [Row("a-1", "a")], {"clip": np.zeros((1, 2), np.float32)}
    )
    assert "script" not in Tags(store._repr_html_()).tags
