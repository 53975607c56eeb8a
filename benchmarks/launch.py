"""Run one command and print its time and peak memory as JSON.

Linux counts the memory of the process that starts a program as a part of that program's peak. So
a benchmark that holds gigabytes starts programs through this small script, which imports nothing
else.
"""

import json
import os
import sys
import time


def main(argv: list[str]) -> int:
    """Run `argv` with its output discarded; print one JSON line with what it took."""
    discard = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    started = time.perf_counter()
    pid = os.posix_spawnp(argv[0], argv, dict(os.environ), file_actions=discard)
    _, status, usage = os.wait4(pid, 0)
    measured = {
        "wall_s": time.perf_counter() - started,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        # In kilobytes, but in bytes on macOS.
        "peak_rss_bytes": usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        "code": os.waitstatus_to_exitcode(status),
    }
    sys.stdout.write(json.dumps(measured) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
