"""No module imports itself by way of others, not even inside a function."""

from __future__ import annotations

import graphlib

import grimp

PACKAGES = ("obygaze", "obygaze_features", "obygaze_models")


def test_there_is_no_import_cycle():
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True)
    order = graphlib.TopologicalSorter(
        {
            module: graph.find_modules_directly_imported_by(module)
            for module in graph.modules
        }
    )
    assert len(graph.modules) > 100
    try:
        order.prepare()
    except graphlib.CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None
