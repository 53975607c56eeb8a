"""Checks that one worker does one after another: those of a file, which share what they make.

The group with the most tests begins first: the pages are one group, so that nobody waits for the
guide in the end, and one of them goes on from the demo. The marks `xdist_group` of pytest-xdist 3.8
have no effect with pytest 9.2.
"""

from xdist.scheduler import LoadScopeScheduling

# How the names of tests begin that share something with those of another file.
GROUPS = {
    "tests/obygaze/demo/test_tour.py": "pages",
    "tests/obygaze_features/extraction/test_slurm.py": "slurm",
    "tests/stories/03_many_workers.py::test_a_slurm_array": "slurm",
    "tests/test_docs.py": "pages",
}


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Give each group, and each file with the rest, to the next worker that is free."""

    def _split_scope(self, nodeid: str) -> str:
        for start, group in GROUPS.items():
            if nodeid.startswith(start):
                return group
        return nodeid.partition("::")[0]
