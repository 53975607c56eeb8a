"""Empty: removed together with its entry point."""

COMMANDS: dict[str, tuple[str, str]] = {}
