"""Runs one command and tells its time and memory: a small process between a bench and a rival.

Linux counts the memory of the process that starts a program as that program's own peak, so a
bench that holds gigabytes must not start it itself. Run as a script with nothing else imported.
"""

import json
import os
import sys
import time


def main(argv: list[str]) -> int:
    """Run `argv`, its output thrown away; one JSON line with what it took."""
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    started = time.perf_counter()
    pid = os.posix_spawnp(argv[0], argv, dict(os.environ), file_actions=silent)
    _, status, usage = os.wait4(pid, 0)
    taken = {
        "wall_s": time.perf_counter() - started,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        # Kilobytes, but bytes on a Mac.
        "peak_rss_bytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        "code": os.waitstatus_to_exitcode(status),
    }
    sys.stdout.write(json.dumps(taken) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
