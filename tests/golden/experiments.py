"""What experiments give: every shipped protocol, and a run for each ability beside them."""

from collections.abc import Mapping, Sequence

import numpy as np

from golden import worlds
from golden.doors import (
    Place,
    compare,
    extract,
    import_accede,
    import_clips,
    import_features,
    import_mobygaze,
    predict,
    run_protocol,
    train,
)
from golden.films import drawn_pictures, write_film
from golden.runs import comparison, read_run
from golden.tables import Table

Tables = dict[str, Table]

NEGATIVES = "honest-negatives"
ONE_CELL = ('grid.train=["EN_S"]', 'grid.test=["EN_S"]')
TWO_CELLS = ('grid.train=["EN_S", "HN_S"]', 'grid.test=["EN_S"]')
ONLY_RIDGE = 'grid.models=["ridge"]'
NO_CONCEPTS = "report.concepts=false"
# The other baselines stand in the tables of `honest-negatives`.
FEW_BASELINES = 'grid.baselines=["random", "neighbour"]'
PLAIN = (NO_CONCEPTS, FEW_BASELINES)
SEEN = {"seen": "seen"}
COARSE = {"coarse": "coarse"}
SENSES = {**SEEN, **COARSE, "joined": "seen+coarse"}


def tables_of_run(
    place: Place,
    name: str,
    protocol: str,
    stores: Mapping[str, str],
    *changes: str,
    manifest: str = "films",
    tasks: Sequence[str] = (),
) -> Tables:
    run_protocol(
        place, protocol, manifest, stores, output=name, tasks=tasks, changes=changes
    )
    return {f"{name}.{table}": rows for table, rows in read_run(place, name).items()}


def tables_of_honest(place, name, *changes: str, tasks: Sequence[str] = ()) -> Tables:
    return tables_of_run(place, name, NEGATIVES, SEEN, *changes, tasks=tasks)


def tables_of_shipped(
    place: Place, names: Sequence[str], stores: Mapping[str, str], manifest: str
) -> Tables:
    tables: Tables = {}
    for name in names:
        tables |= tables_of_run(place, name, name, stores, manifest=manifest)
    return tables


def make_films(place: Place) -> None:
    """Make the manifest `films` and its stores: of two senses, both with gaps, and of frames.

    `coarse` has few different values, so that clips have equal scores; `both` joins the two.
    """
    rows = worlds.labelled_clips(per_film=9)
    import_clips(place, rows, "films")
    seen = worlds.seen_features(rows)
    import_features(
        place, rows, seen, "seen", manifest="films", lacking=range(5, 54, 17)
    )
    coarse = worlds.coarse_features(rows)
    import_features(place, rows, coarse, "coarse", manifest="films", lacking=(7, 31))
    frames = worlds.frame_features(rows)
    import_features(
        place, rows, frames, "frames", manifest="films", array="frames", lacking=(9,)
    )


def record_honest(place: Place) -> Tables:
    """The protocols that hold out whole films."""
    make_films(place)
    place("manifest group films -o by-subconstruct")
    frames = {"frames": "frames"}
    grouped = ("obygaze12-subconstructs",)
    return {
        **tables_of_shipped(place, ("honest", NEGATIVES), SEEN, "films"),
        **tables_of_shipped(place, ("honest-frames",), frames, "films"),
        **tables_of_run(
            place, "joined", NEGATIVES, SENSES, *TWO_CELLS, "data.view=raw"
        ),
        **tables_of_shipped(place, grouped, SEEN, "by-subconstruct"),
        **tables_of_shipped(place, ("paper-baselines",), {}, "films"),
    }


def record_papers(place: Place) -> Tables:
    rows = worlds.labelled_clips(per_film=17)
    import_clips(place, rows, "films")
    lacking = range(3, len(rows), 29)
    seen = worlds.seen_features(rows)
    import_features(place, rows, seen, "seen", manifest="films", lacking=lacking)
    coarse = worlds.coarse_features(rows)
    import_features(place, rows, coarse, "coarse", manifest="films", lacking=lacking)
    names = ("fig3", "pcbm", "pcbm-text", "table2", "table2-text", "table4")
    of_seen = [f"paper-{name}" for name in names]
    # Their experiments are those of Tables 2 and 4: here with many clips of equal scores.
    of_coarse = ("paper-table5", "paper-fig6")
    return {
        **tables_of_shipped(place, of_seen, SEEN, "films"),
        **tables_of_shipped(place, of_coarse, COARSE, "films"),
    }


def record_other_data(place: Place) -> Tables:
    segments = worlds.mobygaze_table()
    import_mobygaze(place, segments)
    for film in dict.fromkeys(row["imdb_key"] for row in segments):
        brightness = worlds.brightness_of(film, segments)
        pictures = drawn_pictures(np.random.default_rng(10), brightness)
        write_film(place.path(f"videos/{film}.mkv"), pictures, worlds.RATE)
    place("manifest link mobygaze videos")
    extract(place, "mobygaze", "descriptors")
    clips = place.read_manifest("mobygaze")
    words = np.random.default_rng(9).normal(size=(len(clips), 6))
    words[:, 0] += [0.8 * (clip["level"] == "S") for clip in clips]
    lacking = range(4, len(clips), 19)
    import_features(place, clips, words, "words", manifest="mobygaze", lacking=lacking)
    tables: Tables = {}
    stores = {"mobygaze-visual": "mobygaze.descriptors", "mobygaze-words": "words"}
    for name, store in stores.items():
        tables |= tables_of_shipped(place, (name,), {"features": store}, "mobygaze")
    settings = "--set report.replicates=50"
    train(place, "ridge", "mobygaze.descriptors", "mobygaze", settings, output="kept")
    # What the model says of each segment is out of fold.
    tables["segments.predicted"] = predict(place, "kept", "mobygaze.descriptors")
    excerpts = worlds.accede_excerpts()
    for name, text in worlds.accede_files(excerpts).items():
        place.write(f"annotations/{name}", text)
    import_accede(place, "annotations")
    ids = [{"clip_id": excerpt["name"]} for excerpt in excerpts]
    X = worlds.accede_features(excerpts)
    import_features(place, ids, X, "accede", manifest="liris-accede", lacking=(11,))
    questions = ("violence", "valence", "arousal")
    names = [f"mediaeval2015-{question}" for question in questions]
    stores = {"accede": "accede"}
    return {**tables, **tables_of_shipped(place, names, stores, "liris-accede")}


OF_RIDGE = (ONLY_RIDGE, *PLAIN)
# Runs of `honest-negatives` on one store.
ABILITIES: dict[str, tuple[str, ...]] = {
    "groups": (*ONE_CELL, *OF_RIDGE, "splits.column=director"),
    "seeds": (*ONE_CELL, *PLAIN, 'grid.models=["mlp"]', "fit.seeds=3"),
    "contrasts": (
        *(*TWO_CELLS, *PLAIN, "models.logistic.kind=logistic"),
        'grid.models=["ridge", "logistic"]',
    ),
    "random-folds": (
        *(*ONE_CELL, *OF_RIDGE),
        *("splits.kind=kfold", "splits.folds=4", "splits.seed=3"),
    ),
    "grid-of-settings": (
        *(*ONE_CELL, *PLAIN, "models.svm.kind=svm", "models.svm.C.grid=[0.01, 1.0]"),
        *("models.hybrid.kind=pcbm-h", 'grid.models=["svm", "hybrid"]'),
    ),
    "scaled-selected": (
        *(*ONE_CELL, *OF_RIDGE, "data.view=raw", "data.scale=standard"),
        "data.where=mood",
    ),
}


def record_abilities(place: Place) -> Tables:
    """A run for each ability that no shipped protocol has, or not alone."""
    make_films(place)
    own = ("mood=tense", "rating>=2", "director")
    tables = tables_of_honest(place, "own-tasks", *OF_RIDGE, tasks=own)
    for name, changes in ABILITIES.items():
        tables |= tables_of_honest(place, name, *changes)
    other = (*TWO_CELLS, *OF_RIDGE)
    tables |= tables_of_run(place, "other-store", NEGATIVES, COARSE, *other)
    two = ("contrasts", "other-store")
    tables["compared.two"] = comparison(compare(place, two))
    tables["compared.three"] = comparison(compare(place, (*two, "seeds")))
    return tables
