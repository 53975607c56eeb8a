"""Everything that yields features keyed by clip: manifests, stores, videos, backbones."""

__version__ = "0.1.0"
