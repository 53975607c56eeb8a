"""Differences between operating systems: locks, renames, syncs, signals, limits, users.

No other code imports a module that only some systems have, or tests which system runs. `posix` is
for Linux and macOS, `windows` for Windows. Functions for decode workers and forks are in `posix`
only, because Windows has neither (HAS_DECODE_WORKERS, CAN_FORK): on Windows, obygaze extracts
nothing and uses one process. A system with the module `fcntl` counts as Linux or macOS, so that a
test can hide `fcntl` to get the functions for Windows.
"""

from importlib.util import find_spec

if find_spec("fcntl") is not None:
    from obygaze_features.core.system.posix import *  # noqa: F403
else:
    from obygaze_features.core.system.windows import *  # noqa: F403
