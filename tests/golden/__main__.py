"""Write the golden tables anew: `make golden`, or `python -m golden PART ... --into FOLDER`."""

import argparse
import time
from pathlib import Path

from golden.recording import PARTS, RECORDED, record_in_a_process


def main() -> None:
    """Record the parts that the command line names, by default all."""
    parser = argparse.ArgumentParser(prog="golden", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--into", type=Path, default=RECORDED, metavar="FOLDER")
    parser.add_argument("--here", action="store_true", help="in this process")
    words = parser.parse_args()
    parts = words.parts or PARTS
    if words.here:
        for part in parts:
            print(record_here(part, words.into))
    else:
        print(record_in_a_process(parts, words.into), end="")


def record_here(part: str, into: Path) -> str:
    # Imported late: the process that starts the others needs none of it.
    from golden.making import record

    before = time.process_time()
    n_values, n_bytes = record(part, into)
    seconds = time.process_time() - before
    return f"{part}: {n_values:,} values, {n_bytes / 1000:.0f} kB, {seconds:.1f} s"


if __name__ == "__main__":
    main()
