"""Start the `obygaze` command from a checkout: `python cli.py --help`. Not installed."""

from obygaze.__main__ import main

if __name__ == "__main__":
    main()
