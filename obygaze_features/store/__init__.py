"""The feature store at rest: format, reader, writer, verification, sharing, interchange."""
