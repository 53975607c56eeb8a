"""What differs between operating systems: locks, renames, syncs, signals, limits, users.

Nothing else imports a module that only some systems have, or asks which system runs. `posix` is for
Linux and macOS, `windows` for Windows. What decode workers and forks need is in `posix` alone:
Windows has neither (HAS_DECODE_WORKERS, CAN_FORK): nothing is extracted there, and one process does
all else. A system is known by what it has and not by its name, so that a test can take `fcntl`
away.
"""

from importlib.util import find_spec

if find_spec("fcntl") is not None:
    from obygaze_features.core.system.posix import *  # noqa: F403
else:
    from obygaze_features.core.system.windows import *  # noqa: F403
