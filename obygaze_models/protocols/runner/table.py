"""The text of a run for the terminal: a line for each cell and baseline, then the remarks."""

from __future__ import annotations

from collections.abc import Sequence

from obygaze_features.core.console import table
from obygaze_models.protocols.runner.records import Record, Run

SHOWN = ("f1_binary", "f1_weighted", "ap", "auc")
LISTED_MISSING = 3
BLIND = ("random", "all_positive")
HEADERS = (
    *("store", "train", "test", "model", "clips", "positive", "leaked"),
    *("F1", "F1 weighted", "AP", "AUC", "paper"),
)


def result_text(run: Run) -> str:
    """Return the output of `obygaze run`."""
    parts = [str(run.protocol["report"]["title"] or run.protocol["name"])]
    parts.append(table(HEADERS, [_line(c) for c in (*run.cells, *_once(run.baselines))]))
    parts.append(_legend(run))
    parts += [_argmax(record) for record in run.of("argmax")]
    parts += [text for record in run.of("coverage") if (text := _coverage(record))]
    parts += [f"! {record['text']}" for record in run.of("remark")]
    seconds = run.about["seconds"]
    spent = ", ".join(f"{name} {value:.1f}" for name, value in seconds.items() if name != "total")
    parts.append(f"{run.folder}  ({seconds['total']:.1f} s: {spent})")
    return "\n".join(parts)


def _once(baselines: Sequence[Record]) -> list[Record]:
    """Return one line for baselines with equal values, and for each test of those without a fit."""
    shown: dict[tuple[object, ...], Record] = {}
    for record in baselines:
        blind = record["model"] in BLIND
        train = "-" if blind else record["train"]
        values = [str(record.get(metric)) for metric in SHOWN]
        key = (record["feature"], train, record["test"], blind and record["model"], *values)
        if key not in shown:
            shown[key] = {**record, "train": train, "leaked": 0 if blind else record["leaked"]}
        elif not blind:
            shown[key]["model"] += f", {record['model']}"
    return list(shown.values())


def _line(record: Record) -> Sequence[object]:
    name = record["model"] + (" (ceiling)" if record.get("ceiling") else "")
    name += " (expected)" if record.get("expected") else ""
    return (
        record["feature"] or "-",
        record["train"],
        record["test"],
        name,
        record["n_test"],
        f"{100 * record['prevalence']:.1f}%",
        record["leaked"],
        *(_value(record.get(metric)) for metric in SHOWN),
        _paper(record),
    )


def _value(found: Record | None) -> str | None:
    if found is None or found["value"] is None:
        return None
    low, high = found["ci"]
    interval = "" if low is None else f" {_short(low)}-{_short(high)}"
    return f"{_short(found['value'])}{interval}"


def _short(value: float) -> str:
    return f"{value:.2f}".replace("0.", ".", 1)


def _paper(record: Record) -> str | None:
    printed = [one for one in record["paper"] if one["movie"] is None]
    if not printed:
        return None
    sd = printed[0]["sd"]
    return _short(printed[0]["mean"]) + (f" ({_short(sd)})" if sd is not None else "")


def _legend(run: Run) -> str:
    level = 100 * run.protocol["report"]["confidence"]
    how = "averaged over runs" if any(c["repeated"] for c in run.cells) else "pooled over folds"
    if all(record["n_movies"] < 2 for record in (*run.cells, *run.baselines)):
        return f"Values {how}; of one film there is no interval over films."
    return f"Values {how}, with {level:g} % intervals over films."


def _argmax(record: Record) -> str:
    low, high = (_short(end) if end is not None else "-" for end in record["ci"])
    return (
        f"{record['model']} ({record['feature']}), most probable of {', '.join(record['tasks'])}: "
        f"accuracy {_short(record['accuracy'])} {low}-{high} on {record['n_test']} clips, "
        f"largest class {_short(record['majority'])}"
    )


def _coverage(record: Record) -> str:
    if not record["n_missing"]:
        return _unused(record)
    reasons = ", ".join(f"{n} {reason}" for reason, n in record["reasons"].items())
    first = ", ".join(item["clip_id"] for item in record["missing"][:LISTED_MISSING])
    rest = ", ..." if record["n_missing"] > LISTED_MISSING else ""
    return (
        f"{record['feature']}: {record['n_missing']} of {record['n_clips']} clips have no vector "
        f"and are left out, {record['n_missing_in_tasks']} of them in a task ({reasons}): "
        f"{first}{rest}" + _unused(record, ". ")
    )


def _unused(record: Record, before: str = "") -> str:
    if not record["n_unused"]:
        return ""
    return (
        f"{before}{record['feature']}: {record['n_unused']} clips have a vector but no video in "
        "the manifest, and are left out as in the released code"
    )
