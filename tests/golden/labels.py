"""What is said of labels: agreement, projection, alphas, shares, concepts by level."""

from collections.abc import Iterable, Mapping
from typing import Any

from golden import worlds
from golden.doors import Place, import_clips, project
from golden.tables import Row, Table

NULLS = ("uniform", "own", "pooled")


def record_labels(place: Place) -> dict[str, Table]:
    return {
        **record_agreement(place),
        **record_projection(place),
        **record_alphas(place),
        **record_shares(place),
        **record_concepts(place),
    }


# ---- marks of several people ---------------------------------------------------------------------


def record_agreement(place: Place) -> dict[str, Table]:
    """Agreement under three nulls: where all was watched, and where a table says what was."""
    marks = worlds.drawn_marks()
    place.write_table("marks.csv", marks)
    place.write_table("seen.csv", [*marks, *worlds.watched_spans()])
    tables: dict[str, Table] = {}
    for name in ("marks", "seen"):
        document = place(f"agree {name}.csv --every 4 --json").json()
        tables[f"agreement.{name}"] = agreement_rows(document)
    return tables


def agreement_rows(document: Mapping[str, Any]) -> list[Row]:
    rows: list[Row] = []
    for found in document["rows"]:
        is_mean = found["film"].startswith("mean")
        row = {
            "film": found["film"],
            "pair": "" if is_mean else found["people"].replace(" / ", " and "),
            "levels": found["words"],
            **{f"gamma {null}": found[f"gamma_{null}"] for null in NULLS},
            "alpha": found["alpha"],
            "clips": None if is_mean else found["items"],
            "equal": found["equal"],
            "kappa": found["kappa"],
            "alpha low": found["low"],
            "alpha high": found["high"],
        }
        rows.append(row)
    return rows


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
    rows = []
    for name, line in lines.items():
        rows.append(alpha_row(name, place(f"agree {line} --json").json()))
    return {"alphas": rows}


def alpha_row(name: str, document: Mapping[str, Any]) -> Row:
    found = document["rows"][0]
    return {
        "of": name,
        "items": found["items"],
        "single": document["n_single"],
        "complete": document["n_complete"],
        "clusters": document["n_films"],
        "cronbach": found["cronbach"],
        "cronbach low": found["cronbach_low"],
        "cronbach high": found["cronbach_high"],
        "krippendorff": found["alpha"],
        "krippendorff low": found["low"],
        "krippendorff high": found["high"],
        "equal": found["equal"],
        "kappa": found["kappa"],
    }


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
        shares += [share_row(name, document, share) for share in document["shares"]]
        for pair in document["differences"]:
            differences.append(share_difference(name, pair))
    drawn = []
    for row in place.read_manifest("drawn"):
        chance = float(row["draw_probability"])
        drawn.append({"draw": "drawn", "clip": row["clip_id"], "chance": chance})
    return {"shares": shares, "shares.differences": differences, "shares.drawn": drawn}


def share_row(name: str, document: Row, share: Row) -> Row:
    return {
        "of": name,
        "group": share["group"],
        "films": share["n_films"],
        "clips": share["n_clips"],
        "drawn": share["n_drawn"],
        "judged": share["n_judged"],
        "share": share["share"],
        "low": share["low"],
        "high": share["high"],
        "explained": document["explained"],
    }


def share_difference(name: str, pair: Row) -> Row:
    first, second = pair["groups"]
    return {
        "of": name,
        "first": first,
        "second": second,
        "difference": pair["difference"],
        "p": pair["p"],
        "p_holm": pair["p_holm"],
        "method": pair["method"],
        "in both": pair["n_in_both"],
    }


# ---- levels and concepts -------------------------------------------------------------------------


def record_concepts(place: Place) -> dict[str, Table]:
    """Which concepts go with a level, how many a level has, and the counts of a manifest."""
    import_clips(place, worlds.labelled_clips(per_film=10), "labelled")
    tables: dict[str, Table] = {}
    groups = "'level == S' 'level == HN'"
    for column in ("concepts", "mood"):
        line = f"audit annotations labelled --column {column} {groups} --json"
        document = place(line).json()
        tables[f"annotations.{column}"] = list(annotation_rows(document["values"]))
    rows: list[Row] = []
    for manifest in ("labelled", "annotated"):
        for view in ("raw", "visual"):
            line = f"audit levels {manifest} --view {view} --json"
            document = place(line).json()
            for person in document["annotators"]:
                of = {"manifest": manifest, "person": person["annotator"], "view": view}
                rows += [{**of, **level_row(level)} for level in person["levels"]]
                rows += [{**of, **step_row(step)} for step in person["steps"]]
            whole = {"manifest": manifest, "person": "", "view": view}
            rises = "yes" if document["rises"] else "no"
            rows.append({**whole, "level": "all", "p": document["p"], "rises": rises})
    tables["concepts by level"] = rows
    return tables


def annotation_rows(values: Iterable[Row]) -> Iterable[Row]:
    """Return the share of a value in both groups, and p with and without films held."""
    for value in values:
        yield {
            "value": value["value"],
            "x": value["count_x"],
            "y": value["count_y"],
            **ends("x", value["interval_x"]),
            **ends("y", value["interval_y"]),
            "p": value["p"]["two_sided"],
            "p greater": value["p"]["greater"],
            "p within films": value["p_blocked"]["two_sided"],
            "p within films greater": value["p_blocked"]["greater"],
            "p_holm": value["p_holm"],
            "p_holm of": value["verdict"],
        }


def level_row(level: Row) -> Row:
    return {
        "level": level["level"],
        "clips": level["n_clips"],
        "films": level["n_films"],
        "value": level["mean"],
        **ends("value", level["interval"]),
    }


def step_row(step: Row) -> Row:
    return {
        "level": f"{step['lower']} to {step['higher']}",
        "films": step["n_films"],
        "films that rise": step["n_rising"],
        "value": step["difference"],
        **ends("value", step["interval"]),
        "p": step["p"],
    }


def ends(name: str, interval: Iterable[float | None]) -> Row:
    low, high = interval
    return {f"{name} low": low, f"{name} high": high}
