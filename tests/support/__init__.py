"""Code that tests share. Import as `from support.cli import run_obygaze`."""
