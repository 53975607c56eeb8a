"""The store of each fold, chosen on training films, and what is wrong with choosing it later."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from obygaze_models.protocols.results.cells import CHOSEN, CellRecord
from obygaze_models.report.lookup import ReportRun
from obygaze_models.report.tables import Number, Part, make_table, sentence


@dataclass(frozen=True)
class ChoicesOfCell:
    """How often a cell chose each store, and the mean inner score of each."""

    n_chosen: Counter[str]
    inner_ap: dict[str, float | None]

    @classmethod
    def of(cls, cell: CellRecord, stores: Sequence[str]) -> "ChoicesOfCell":
        """Return the choices of a cell whose store was chosen."""
        inner_ap: dict[str, float | None] = {}
        for store in stores:
            values = [fold.chosen["inner_ap"].get(store) for fold in cell.folds]
            known = [value for value in values if value is not None]
            inner_ap[store] = fmean(known) if known else None
        return cls(Counter(fold.chosen["store"] for fold in cell.folds), inner_ap)


def store_choices(run: ReportRun) -> Part:
    """Yield the stores that were chosen; without a choice, a warning of choosing one later."""
    if not run.chooses_store:
        if len(run.stores) > 1:
            yield sentence("best_of_stores")
        return
    yield sentence("store_choice")
    stores = [store for store in run.stores if store != CHOSEN]
    cells = [cell for cell in run.cells if cell.feature == CHOSEN]

    def values(cell: CellRecord) -> list[object]:
        choices = ChoicesOfCell.of(cell, stores)
        named = [f"{store} {n}" for store, n in choices.n_chosen.most_common()]
        return [", ".join(named), *(Number(choices.inner_ap[s]) for s in stores)]

    headers = [f"inner AP, {store}" for store in stores]
    yield make_table(
        "store_choice", "store-choice", run.rows_by_pair(cells, values), headers
    )
