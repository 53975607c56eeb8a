"""Checks that one worker does one after another.

They share what they make, or would disturb each other. The largest group begins first: the pages
are one, so that nobody waits for the guide in the end, and one of them goes on from the demo. The
marks `xdist_group` of pytest-xdist 3.8 have no effect with pytest 9.2.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

# How the names of its tests begin.
GROUPS = {
    "tests/benchmarks/test_decode.py": "times of decoding",
    "tests/benchmarks/test_fit.py": "times of fits",
    "tests/obygaze/demo/test_tour.py": "pages",
    "tests/obygaze/films/test_agreement.py": "pygamma",
    "tests/obygaze_features/extraction/test_slurm.py": "slurm",
    "tests/obygaze_features/store/test_copying_elsewhere.py": "bucket",
    "tests/obygaze_models/protocols/test_paper_bottlenecks.py": "bottlenecks",
    "tests/stories/03_many_workers.py::test_a_slurm_array": "slurm",
    "tests/test_docs.py": "pages",
    "tests/test_site.py": "site",
}


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Give each group, and each other test, to the next worker that is free."""

    def _split_scope(self, nodeid: str) -> str:
        for start, group in GROUPS.items():
            if nodeid.startswith(start):
                return group
        return nodeid
