"""What is said of labels: agreement, projection, alphas, shares, concepts by level."""

from collections.abc import Iterable
from typing import Any

from support.film import rows_of_segments

from golden import worlds
from golden.doors import Place, import_clips, project
from golden.tables import Row, Table

# Sentences, and what the row of another column or the line that was typed says.
LEFT_OUT = ("why", "tail", "x", "y", "a", "b", "n_x", "n_y")


def record_labels(place: Place) -> dict[str, Table]:
    return {
        **record_agreement(place),
        **record_projection(place),
        **record_alphas(place),
        **record_shares(place),
        **record_concepts(place),
    }


def flat(row: Row, prefix: str = "") -> dict[str, Any]:
    """Return the cells of a row of a document, those of an interval or a table inside it too."""
    cells: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, list):
            value = dict(enumerate(value))
        if isinstance(value, dict):
            cells |= flat(value, f"{prefix}{name} ")
        elif prefix or name not in LEFT_OUT:
            cells[f"{prefix}{name}"] = value
    return cells


def flat_rows(rows: Iterable[Row], **of: str) -> list[Row]:
    return [{**of, **flat(row)} for row in rows]


# ---- marks of several people ---------------------------------------------------------------------


def record_agreement(place: Place) -> dict[str, Table]:
    """Agreement under three nulls: where all was watched, and where a table says what was."""
    marks = worlds.drawn_marks()
    place.write_table("marks.csv", rows_of_segments(marks))
    seen = [*marks, *worlds.watched_spans()]
    place.write_table("seen.csv", rows_of_segments(seen))
    tables: dict[str, Table] = {}
    for name in ("marks", "seen"):
        place(f"marks clips {name}.csv --every 4 -o {name}")
        document = place(f"agree {name} --json").json()
        tables[f"agreement.{name}"] = flat_rows(document["rows"])
    return tables


# ---- labels of clips from marks ------------------------------------------------------------------


def record_projection(place: Place) -> dict[str, Table]:
    """Labels of clips from marks, merged and of each person, at three thresholds and rates."""
    tables: dict[str, Table] = {}
    for threshold in ("0.2", "1/3", "0.5"):
        rows = project(place, "marks.csv", "--every 4", threshold)
        tables[f"projection.threshold {threshold.replace('/', ' of ')}"] = rows
    tables["projection.each"] = project(
        place, "seen.csv", "--every 4", "0.2", each=True
    )
    return tables


# ---- answers of several people -------------------------------------------------------------------


def record_alphas(place: Place) -> dict[str, Table]:
    """Krippendorff's and Cronbach's alpha of ratings, of words, and of rows of annotators."""
    place.write_table("ratings.csv", worlds.ratings())
    clustered = "--cluster film"
    lines = {
        "ratings, films": f"ratings.csv --raters ada,ben,cleo {clustered}",
        "ratings, items": "ratings.csv --raters ada,ben,cleo",
        "ratings, two": f"ratings.csv --raters ada,cleo {clustered}",
        "words": f"ratings.csv --raters word1,word2 {clustered}",
    }
    import_clips(place, worlds.annotated_clips(), "annotated", "agreed")
    for column in ("rating", "mood", "level=S"):
        lines[f"annotators, {column}"] = f"annotated --column '{column}'"
    rows: list[Row] = []
    for name, line in lines.items():
        document = place(f"agree {line} --json").json()
        counts = {name: document[name] for name in document if name.startswith("n_")}
        rows.append({"of": name, **counts, **flat(document["rows"][0])})
    return {"alphas": rows}


# ---- shares --------------------------------------------------------------------------------------


def record_shares(place: Place) -> dict[str, Table]:
    """Shares of drawn clips and their differences between groups, with and without predictions."""
    clips = worlds.clips_to_draw()
    import_clips(place, clips, "films")
    place("manifest sample films -n 72 -o drawn --seed 3")
    place.write_table("scores.csv", worlds.scores_of(clips))
    lines = {
        "S": "drawn --by decade",
        "S, predictions": "drawn --by decade --predictions scores.csv",
        "Look": "drawn --of 'Look in concept'",
        "rating": "drawn --of 'rating >= 2' --by decade",
    }
    shares: list[Row] = []
    differences: list[Row] = []
    for name, line in lines.items():
        document = place(f"audit share {line} --json").json()
        for share in flat_rows(document["shares"], of=name):
            shares.append({**share, "explained": document["explained"]})
        differences += flat_rows(document["differences"], of=name)
    drawn = []
    for row in place.read_manifest("drawn"):
        chance = float(row["draw_probability"])
        drawn.append({"draw": "drawn", "clip": row["clip_id"], "chance": chance})
    return {"shares": shares, "shares.differences": differences, "shares.drawn": drawn}


# ---- levels and concepts -------------------------------------------------------------------------


def record_concepts(place: Place) -> dict[str, Table]:
    """Which concepts go with a level, how many a level has, and the counts of a manifest."""
    import_clips(place, worlds.labelled_clips(per_film=10), "labelled")
    tables: dict[str, Table] = {}
    groups = "'level == S' 'level == HN'"
    for column in ("concepts", "mood"):
        line = f"audit annotations labelled --column {column} {groups} --json"
        tables[f"annotations.{column}"] = flat_rows(place(line).json()["values"])
    rows: list[Row] = []
    for manifest in ("labelled", "annotated"):
        for view in ("raw", "visual"):
            of = {"manifest": manifest, "view": view}
            line = f"audit levels {manifest} --view {view} --json"
            document = place(line).json()
            for person in document["annotators"]:
                each = [*person["levels"], *person["steps"]]
                rows += flat_rows(each, **of, person=person["annotator"])
            rows.append({**of, "p": document["p"], "rises": document["rises"]})
    tables["concepts by level"] = rows
    return tables
