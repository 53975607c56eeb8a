"""Random protocols against a plain computation of every cell: see support.plain_cells."""

from pathlib import Path

import pytest
from support.experiments import store_of
from support.plain_cells import differences
from support.random_protocols import Experiment, draw_experiment
from support.seeds import amount

from obygaze_features.core.errors import FixInput, FixUsage, NotFound
from obygaze_models.protocols.reading import parse_protocol
from obygaze_models.runner.files import Run
from obygaze_models.runner.inputs import gather
from obygaze_models.runner.run import run_protocol

# Few clips, of every kind of split.
QUICK = (2, 4, 5, 6, 7, 9, 11)
SEEDS = amount(QUICK, tuple(range(200)))


def run_drawn(one: Experiment, folder: Path) -> Run:
    """Run an experiment from the bytes of its protocol."""
    protocol = parse_protocol(one.toml, "made-up.toml")
    store = store_of(
        folder / "store", one.manifest, one.X, failed=one.failed, without=one.absent
    )
    inputs = gather(protocol, one.manifest, "made-up", {"s": store})
    return run_protocol(inputs, folder / "run", n_jobs=1)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_cell_of_a_random_protocol_is_what_plain_code_computes(tmp_path, seed):
    one = draw_experiment(seed)
    try:
        run = run_drawn(one, tmp_path)
    except (FixInput, FixUsage, NotFound) as error:
        pytest.skip(f"refused: {error.message}")
    assert differences(one, run) == []
