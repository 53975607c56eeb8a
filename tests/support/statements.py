"""The statements of a module: a fifth of what `ast.walk` visits."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator

_PARTS = ("body", "orelse", "finalbody", "handlers", "cases")


def statements(source: str | ast.Module) -> Iterator[ast.AST]:
    """Yield each statement of a module, those inside of others too."""
    module = ast.parse(source) if isinstance(source, str) else source
    waiting: deque[ast.AST] = deque([module])
    while waiting:
        node = waiting.popleft()
        yield node
        for part in _PARTS:
            waiting.extend(getattr(node, part, ()))
