"""Start the `obygaze` command; an interrupt while modules load is reported in one line."""

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        from obygaze import cli

        cli.main()
    except KeyboardInterrupt:
        sys.stderr.write("\nError: interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
