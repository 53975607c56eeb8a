"""What experiments give: every shipped protocol, and a run for each ability beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from golden import worlds
from golden.doors import (
    Place,
    compare,
    cut_windows,
    extract,
    import_accede,
    import_clips,
    import_features,
    import_mobygaze,
    join_stores,
    predict,
    run_protocol,
    train,
)
from golden.films import drawn_pictures, write_film
from golden.runs import comparison, read_run
from golden.tables import Table

Tables = dict[str, Table]

ONE_CELL = ('grid.train=["EN_S"]', 'grid.test=["EN_S"]')
TWO_CELLS = ('grid.train=["EN_S", "HN_S"]', 'grid.test=["EN_S"]')
ONLY_RIDGE = 'grid.models=["ridge"]'
NO_CONCEPTS = "report.concepts=false"
# The other baselines stand in the tables of `honest`.
FEW_BASELINES = 'grid.baselines=["random", "neighbour"]'


def tables_of_run(
    place: Place,
    name: str,
    protocol: str,
    stores: Mapping[str, str],
    *changes: str,
    manifest: str = "films",
    tasks: Sequence[str] = (),
) -> Tables:
    """Run a protocol, and return its tables, each with the name of the run in its own."""
    run_protocol(
        place,
        protocol,
        manifest,
        stores,
        output=name,
        tasks=tasks,
        changes=changes,
    )
    return {f"{name}.{table}": rows for table, rows in read_run(place, name).items()}


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
    join_stores(place, ("seen", "coarse"), "both")
    frames = worlds.frame_features(rows)
    import_features(
        place, rows, frames, "frames", manifest="films", array="frames", lacking=(9,)
    )


def record_honest(place: Place) -> Tables:
    """The protocols that hold out whole films."""
    make_films(place)
    place("manifest group films -o by-subconstruct")
    seen = {"seen": "seen"}
    senses = {"seen": "seen", "coarse": "coarse", "joined": "both"}
    return {
        **tables_of_run(place, "honest", "honest", seen),
        **tables_of_run(place, "honest-frames", "honest-frames", {"frames": "frames"}),
        **tables_of_run(place, "honest-fusion", "honest-fusion", senses, *TWO_CELLS),
        **tables_of_run(
            place,
            "obygaze12-subconstructs",
            "obygaze12-subconstructs",
            seen,
            manifest="by-subconstruct",
        ),
        **tables_of_run(place, "paper-baselines", "paper-baselines", {}),
    }


def record_papers(place: Place) -> Tables:
    """The protocols of the paper, on published folds."""
    rows = worlds.labelled_clips(per_film=17)
    import_clips(place, rows, "films")
    lacking = range(3, len(rows), 29)
    seen = worlds.seen_features(rows)
    import_features(place, rows, seen, "seen", manifest="films", lacking=lacking)
    coarse = worlds.coarse_features(rows)
    import_features(place, rows, coarse, "coarse", manifest="films", lacking=lacking)
    tables: Tables = {}
    for name in ("fig3", "pcbm", "pcbm-text", "table2", "table2-text", "table4"):
        protocol = f"paper-{name}"
        tables |= tables_of_run(place, protocol, protocol, {"seen": "seen"})
    # Their experiments are those of Tables 2 and 4: here with many clips of equal scores.
    for name in ("table5", "fig6"):
        protocol = f"paper-{name}"
        tables |= tables_of_run(place, protocol, protocol, {"coarse": "coarse"})
    return tables


def record_other_data(place: Place) -> Tables:
    """The protocols of MObyGaze, from windows and from words, and those of MediaEval."""
    segments = worlds.mobygaze_table()
    import_mobygaze(place, segments)
    for film in dict.fromkeys(row["imdb_key"] for row in segments):
        brightness = worlds.brightness_of(film, segments)
        pictures = drawn_pictures(np.random.default_rng(10), brightness)
        write_film(place.path(f"videos/{film}.mkv"), pictures, worlds.RATE)
    cut_windows(place, "videos", "windows", pictures=16)
    extract(place, "windows", "descriptors")
    clips = place.read_manifest("mobygaze")
    words = np.random.default_rng(9).normal(size=(len(clips), 6))
    words[:, 0] += [0.8 * (clip["level"] == "S") for clip in clips]
    lacking = range(4, len(clips), 19)
    import_features(place, clips, words, "words", manifest="mobygaze", lacking=lacking)
    tables: Tables = {}
    stores = {"mobygaze-visual": "windows.descriptors", "mobygaze-words": "words"}
    for name, store in stores.items():
        tables |= tables_of_run(
            place, name, name, {"features": store}, manifest="mobygaze"
        )
    settings = "--set data.segments=mobygaze --set report.replicates=50"
    train(place, "ridge", "windows.descriptors", "mobygaze", settings, output="kept")
    # The model reads the windows of a segment; what it says of each is out of fold.
    of_segments = predict(place, "kept", "windows.descriptors", "--manifest mobygaze")
    tables["segments.predicted"] = of_segments
    excerpts = worlds.accede_excerpts()
    for name, text in worlds.accede_files(excerpts).items():
        place.write_text(f"annotations/{name}", text)
    import_accede(place, "annotations")
    ids = [{"clip_id": excerpt["name"]} for excerpt in excerpts]
    X = worlds.accede_features(excerpts)
    import_features(place, ids, X, "accede", manifest="liris-accede", lacking=(11,))
    for question in ("violence", "valence", "arousal"):
        name = f"mediaeval2015-{question}"
        tables |= tables_of_run(
            place, name, name, {"accede": "accede"}, manifest="liris-accede"
        )
    return tables


def record_abilities(place: Place) -> Tables:
    """A run for each ability that no shipped protocol has, or not alone."""
    make_films(place)
    seen = {"seen": "seen"}
    ridge = (*ONE_CELL, ONLY_RIDGE, NO_CONCEPTS, FEW_BASELINES)
    both = {"seen": "seen", "coarse": "coarse", "joined": "both"}
    tables = tables_of_run(
        place,
        "own-tasks",
        "honest",
        seen,
        ONLY_RIDGE,
        NO_CONCEPTS,
        FEW_BASELINES,
        tasks=("mood=tense", "rating>=2", "director"),
    )
    tables |= tables_of_run(
        place, "groups", "honest", seen, *ridge, "splits.column=director"
    )
    tables |= tables_of_run(
        place,
        "seeds",
        "honest",
        seen,
        *ONE_CELL,
        NO_CONCEPTS,
        FEW_BASELINES,
        'grid.models=["mlp"]',
        "fit.seeds=3",
    )
    tables |= tables_of_run(
        place, "curve", "honest", seen, *ridge, "report.learning_films=[2, 4]"
    )
    tables |= tables_of_run(
        place,
        "contrasts",
        "honest",
        seen,
        *TWO_CELLS,
        NO_CONCEPTS,
        FEW_BASELINES,
        "models.logistic.kind=logistic",
        'grid.models=["ridge", "logistic"]',
    )
    tables |= tables_of_run(
        place, "chosen-store", "honest", both, *ridge, "fit.choose_store=true"
    )
    tables |= tables_of_run(
        place,
        "other-store",
        "honest",
        {"coarse": "coarse"},
        *TWO_CELLS,
        ONLY_RIDGE,
        NO_CONCEPTS,
        FEW_BASELINES,
    )
    two = ("contrasts", "other-store")
    tables["compared.two"] = comparison(compare(place, two))
    tables["compared.three"] = comparison(compare(place, (*two, "groups")))
    return {**tables, **record_settings(place)}


def record_settings(place: Place) -> Tables:
    """Runs of settings that no shipped protocol has."""
    seen = {"seen": "seen"}
    ridge = (*ONE_CELL, ONLY_RIDGE, NO_CONCEPTS, FEW_BASELINES)
    tables = tables_of_run(
        place,
        "random-folds",
        "honest",
        seen,
        *ridge,
        "splits.kind=kfold",
        "splits.folds=4",
        "splits.seed=3",
    )
    tables |= tables_of_run(
        place,
        "grid-of-settings",
        "honest",
        seen,
        *ONE_CELL,
        NO_CONCEPTS,
        FEW_BASELINES,
        "models.svm.kind=svm",
        "models.svm.C.grid=[0.01, 1.0]",
        "models.hybrid.kind=pcbm-h",
        'grid.models=["svm", "hybrid"]',
    )
    tables |= tables_of_run(
        place,
        "scaled-erased-selected",
        "honest",
        seen,
        *ridge,
        "data.view=raw",
        "data.scale=standard",
        'data.erase=["Look"]',
        'data.where=mood != ""',
    )
    return tables
