"""Make a table of the graphs of MovieGraphs: python graphs.py PICKLE.

Nothing in the pickle runs: each of its classes becomes a plain record.
"""

import csv
import pickle
import sys
from pathlib import Path

COLUMNS = ["emotions", "interactions", "relationships", "situation", "place"]
COLUMN_OF = {
    "emo": "emotions",
    "interaction": "interactions",
    "relationship": "relationships",
}


class Record(dict):
    """An object of any class."""

    def __init__(self, *values):
        """Keep nothing of what the class is made with."""

    def __setstate__(self, state):
        """Keep the attributes."""
        vars(self).update(state if isinstance(state, dict) else {})


class Reader(pickle.Unpickler):  # noqa: S301 - it finds no class
    """A reader that makes records."""

    def find_class(self, module, name):
        """Return a record for every class."""
        return dict if name == "OrderedDict" else Record


def join(texts):
    """Return the different texts of a cell."""
    names = {" ".join(text.replace("|", "/").split()) for text in texts}
    return "|".join(sorted(names - {""}))


with Path(sys.argv[1]).open("rb") as file:
    films = Reader(file, encoding="latin1").load()
rows = []
for film, movie in films.items():
    for clip in movie.clip_graphs.values():
        texts = {column: [] for column in COLUMNS}
        texts["situation"] += vars(clip).get("situation", "").split(";")
        texts["place"] += vars(clip).get("scene_label", "").split(";")
        for node in clip.G.node.values():
            kind = node.get("subtype") if node["type"] == "attribute" else node["type"]
            if kind in COLUMN_OF:
                texts[COLUMN_OF[kind]].append(node["name"])
        cells = [join(texts[column]) for column in COLUMNS]
        for scene in clip.video["scene"]:
            rows.append([f"{film}-{scene:03d}", *cells])
with Path("graphs.csv").open("w", encoding="utf-8", newline="") as file:
    csv.writer(file).writerows([["clip_id", *COLUMNS], *rows])
