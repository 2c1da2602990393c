# SPDX-License-Identifier: GPL-2.0-only
"""Simulate Linux sched_ext schedulers from Python.

The functions call the program ``weir`` and return its results as pandas data frames. They compute nothing themselves:
the same inputs give the same numbers as the command line.

>>> import weir
>>> result = weir.sim(["kernel", "bfs"], machine="laptop-2c4t", workload="video", duration="1s")
>>> result.runs.groupby("scheduler")["wakeup_latency_ns.p99"].median()
"""

from ._frames import Campaign, Runs, Search
from ._program import BadInput, RunFailed, WeirError, program
from ._run import compare, search, sim, sweep

__all__ = ["BadInput", "Campaign", "RunFailed", "Runs", "Search", "WeirError", "compare", "program", "search", "sim", "sweep"]
