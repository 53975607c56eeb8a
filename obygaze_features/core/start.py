"""Where the `obygaze` command starts: an interrupt is one line even while modules are loading."""

import sys


def main() -> None:
    """Run the command line; cli.py knows how, once it is there."""
    try:
        import cli

        cli.main()
    except KeyboardInterrupt:
        sys.stderr.write("\nError: interrupted\n")
        sys.exit(130)
