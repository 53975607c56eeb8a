"""The CPU-only zoo: reads stores and manifests, and turns them into models, tables and figures."""
