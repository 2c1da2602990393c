# SPDX-License-Identifier: GPL-2.0-only
"""Shared by the tests."""


def campaign(workload, seed, duration):
    """A campaign of three setups of schedulers."""
    axes = {
        "scheduler": ["kernel", "bfs,rr_interval_ms={2,6}"],
        "machine": "laptop-2c4t",
        "workload": workload,
        "seed": seed,
    }
    return {"axes": axes, "options": {"for": duration}}
