"""List and show the protocols that `og.run` takes."""

from typing import TYPE_CHECKING

from obygaze_features.core.lazy import lazy_exports

if TYPE_CHECKING:
    from obygaze_models.protocols.listing import list_protocols as ls
    from obygaze_models.protocols.listing import show_protocol as show
else:
    __getattr__, __dir__, _ = lazy_exports(__name__)

__all__ = ["ls", "show"]
