"""Import of optional packages, with an error that names the extra to install."""

import importlib
from typing import Any

from obygaze_features.core.errors import InstallExtra


def need(module: str, extra: str, purpose: str) -> Any:
    """Import an optional module; if it is missing, raise an error that names the extra."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # An installed package with a missing dependency is a broken installation, not this case.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise InstallExtra(
            f"{purpose} needs the package {error.name!r}, which is not installed",
            hint=f"pip install 'obygaze[{extra}]'",
        ) from error
