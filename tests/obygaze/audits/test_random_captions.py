"""Captions of any form: the audit counts what a plain reading of the same table counts."""

import csv
import io
import unicodedata
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.seeds import amount

from obygaze.audits.captions import audit_captions
from obygaze.audits.result import Audit
from obygaze_features.core.errors import ObygazeError

N_DRAWN = amount(40, 2000)
Random = np.random.Generator
WORDS = {"joy": frozenset({"happy"})}
CELLS = ["x", "x y", "y", "y z", "z", " x", "X", "é", "e\u0301", "名前", "", "a,b"]
LINES = [
    *("a happy day", "Happy", "a day.", "happy happy", "", " ", "ünï happy"),
    "so, happy.",
]
ODD_LINES = [
    *("a happy\u2028day", "happy\x0bday", "happy\x85 x", "\ufeffhappy", "a\thappy")
]
# What a group counts: captions, clusters, words.
Counts = dict[str, tuple[int, int, int]]


def pick(random: Random, items: Any) -> Any:
    """Return one of the items."""
    return items[int(random.integers(len(items)))]


def counted(audit: Audit) -> Counts:
    """What an audit counted in each group."""
    return {
        rate["group"]: (rate["n_captions"], rate["n_clusters"], rate["count"])
        for rate in audit["rates"]
    }


def plainly_counted(captions: list[tuple[str, tuple[str, ...], Any]]) -> Counts:
    """The same counts, from texts with their group and their cluster."""
    of_group = defaultdict(list)
    for text, group, cluster in captions:
        of_group[group].append((text, cluster))
    counts = {}
    for group, own in of_group.items():
        clusters = {cluster for _, cluster in own}
        n_words = 0
        for text, _ in own:
            bare = text.lower().replace(".", "").replace(",", "")
            n_words += bare.split(" ").count("happy")
        counts[" ".join(group)] = len(own), len(clusters), n_words
    return counts


def draw_table(random: Random, path: Path) -> list[tuple[str, tuple[str, ...], Any]]:
    """Write a table of captions; return what a plain reading has of it."""
    columns = ["caption", "a", "b", "film", "image", "extra"]
    order = [columns[i] for i in random.permutation(len(columns))]
    own_cells = [pick(random, CELLS) for _ in range(3)]
    stream = io.StringIO(newline="")
    end = pick(random, ["\n", "\r\n"])
    writer = csv.writer(stream, lineterminator=end)
    writer.writerow(order)
    for _ in range(int(random.integers(1, 12))):
        row = {name: pick(random, own_cells) for name in columns}
        row["caption"] = pick(random, LINES + ODD_LINES)
        for _ in range(1 + int(random.random() < 0.1)):
            writer.writerow([row[name] for name in order])
    mark = b"\xef\xbb\xbf" if random.random() < 0.3 else b""
    path.write_bytes(mark + stream.getvalue().encode())
    text = path.read_bytes().decode("utf-8-sig")
    rows = csv.DictReader(io.StringIO(text, newline=""))
    captions = []
    # Of two words of a column that differ by capitals alone, the first one stands.
    first: dict[tuple[str, str], str] = {}
    for row in rows:
        if row["caption"].strip():
            names = {}
            for name, cell in row.items():
                names[name] = " ".join(unicodedata.normalize("NFC", cell).split())
            group = tuple(
                first.setdefault((name, names[name].lower()), names[name])
                for name in ("a", "b")
            )
            cluster = (names["film"], names["image"])
            captions.append((row["caption"], group, cluster))
    return captions


def is_refused(captions: list[tuple[str, tuple[str, ...], Any]]) -> bool:
    """Whether no text has a group, two groups have one name, or a film or image is not known."""
    groups = {group for _, group, _ in captions if all(group)}
    names = {" ".join(group) for group in groups}
    is_clear = 0 < len(names) == len(groups)
    return not is_clear or not all(all(cluster) for _, _, cluster in captions)


@pytest.mark.filterwarnings("ignore:.*without a (text|group)")
def test_a_table_of_captions_is_counted_as_the_csv_module_reads_it(tmp_path) -> None:
    found, n_read = {}, 0
    for seed in range(N_DRAWN):
        random = np.random.default_rng([44, seed])
        path = tmp_path / f"{seed}.csv"
        captions = draw_table(random, path)
        with_group = [caption for caption in captions if all(caption[1])]
        try:
            audit = audit_captions(
                path, group="a,b", cluster="film,image", words=WORDS, tokens="authors"
            )
        except ObygazeError as error:
            if not is_refused(captions):
                found[seed] = f"refused: {error}"
            continue
        n_read += 1
        expected = plainly_counted(with_group)
        if is_refused(captions) or counted(audit) != expected:
            found[seed] = f"{counted(audit)}, expected {expected}"
    assert found == {}
    assert n_read > N_DRAWN / 5
