"""Write a workspace with files of each kind that later versions have to read.

    PYTHONPATH=.:tests python -m released.writing

writes the folder of this version anew, until the version is released. A released folder stays as it
is, and the next version that changes a format adds its own.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from golden import worlds
from golden.doors import Place, import_clips, import_features

from obygaze_features import __version__

RELEASED = Path(__file__).parent
# What is made again.
NOT_KEPT = ("*.html", "README.md", ".*")

PROTOCOL = """\
schema = "obygaze-protocol/1"

[data]
manifest = "films"

[features.seen]
array = "clip"

[tasks.EN_S]
classes = { EN = 0, S = 1 }

[splits]
kind = "nested"
folds = 3

[models.ridge]
kind = "ridge"

[models.pcbm-lr]
kind = "pcbm-lr"

[grid]
train = ["EN_S"]
test = ["EN_S"]

[report]
replicates = 50
"""
MARKS = """\
movie_id,start_s,end_s,column,value,annotator
alba,1,4.5,level,S,ada
alba,1,4.5,concepts,Look,ada
alba,0,20,watched,watched,ada
alba,2,5,level,HN,ben
alba,2,5,concepts,Body,ben
"""


def write_workspace(place: Place) -> None:
    """Make a manifest with annotators, marks, a store, a run and a model."""
    rows = worlds.labelled_clips(per_film=8)
    import_clips(place, rows, "films")
    import_clips(place, worlds.coded_clips(), "coded", rule="agreed")
    place("manifest folds films --folds 3")
    place.write("segments/films.seen.csv", MARKS)
    import_features(
        place, rows, worlds.seen_features(rows), "pictures", manifest="films"
    )
    place.write("own.toml", PROTOCOL)
    place("run own.toml --store seen=pictures -o first --jobs 1")
    fast = "--set report.replicates=50 --jobs 1"
    place(f"train ridge --store pictures --manifest films -o keeper {fast}")
    place("models predict keeper pictures -o scores.csv")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder) / "made")
        write_workspace(place)
        target = RELEASED / __version__
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(place.folder, target, ignore=shutil.ignore_patterns(*NOT_KEPT))
