"""What saved models of each kind say of their training clips and of a film that is new."""

from golden import worlds
from golden.doors import Place, import_clips, import_features, predict, train
from golden.runs import read_run
from golden.tables import Row, Table

# Of each kind: how it is called, and its settings.
KINDS: dict[str, tuple[str, str]] = {
    "ridge": ("ridge", ""),
    "logistic": ("logistic", "--set 'model.C.grid=[0.1, 1.0]'"),
    "svm": ("svm", "--set model.C=0.5"),
    "mlp": ("mlp", "--set model.hidden=[16] --set fit.seed=1"),
    "tree": ("pcbm-dt", ""),
    "bottleneck": ("pcbm-lr", ""),
    "hybrid": ("pcbm-h", ""),
    "concepts": ("cav", ""),
}
QUICK = "--set report.replicates=50"


def record_models(place: Place) -> dict[str, Table]:
    rows = worlds.labelled_clips(per_film=9)
    old = [row for row in rows if row["movie_id"] != worlds.FILMS[-1]]
    import_clips(place, old, "films")
    import_clips(place, rows, "all-films")
    X = worlds.seen_features(rows)
    lacking = range(5, len(old), 17)
    import_features(
        place,
        old,
        X[: len(old)],
        "old",
        manifest="films",
        lacking=lacking,
        model="seen",
    )
    import_features(place, rows, X, "all", manifest="all-films", model="seen")
    tables: dict[str, Table] = {}
    for name, (kind, settings) in KINDS.items():
        train(place, kind, "old", "films", f"{settings} {QUICK}", output=name)
        rows_of_model: list[Row] = []
        for asked, words in {"": "", "in-sample": "--in-sample"}.items():
            found = predict(place, name, "all", words)
            if asked:
                found = [row for row in found if row["basis"] == asked]
            rows_of_model += found
        tables[f"{name}.predicted"] = rows_of_model
        tables[f"{name}.values"] = values_over_films(place, name)
    return tables


def values_over_films(place: Place, run: str) -> list[Row]:
    rows = read_run(place, run)["values"]
    return [row for row in rows if row["store"] and not row["film"]]
