# SPDX-License-Identifier: GPL-2.0-only
"""Results as data frames."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas

#: Measures that a notebook shows.
SHOWN = ["makespan_ns", "work_ns", "wakeup_latency_ns.mean", "wakeup_latency_ns.p99", "context_switches"]


def flat(run: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The numbers and texts of a run's JSON by their dotted keys; lists are left out."""
    row: dict[str, Any] = {}
    for key, value in run.items():
        if isinstance(value, dict):
            if key != "distributions":
                row |= flat(value, f"{prefix}{key}.")
        elif not isinstance(value, list):
            row[prefix + key] = value
    return row


def frame(rows: list[dict[str, Any]]) -> pandas.DataFrame:
    """A data frame in which integers stay integers although some are unknown."""
    return pandas.DataFrame(rows).convert_dtypes()


@dataclass(frozen=True)
class Runs:
    """Runs and their comparisons."""

    #: A row for each run: its inputs, how it ended, and all measures by their dotted keys.
    runs: pandas.DataFrame
    #: A row for each measure of each comparison, with interval and verdict.
    comparisons: pandas.DataFrame
    #: The JSON document of the program.
    document: dict[str, Any]
    #: Whether no scheduler was ejected, nothing was violated, and all schedulers could be loaded.
    is_fine: bool

    @staticmethod
    def of(document: dict[str, Any], is_fine: bool) -> Runs:
        """The runs of a JSON document."""
        comparisons = [flat(one) for one in document.get("comparisons", [])]
        return Runs(frame([flat(run) for run in document.get("runs", [])]), frame(comparisons), document, is_fine)

    def _repr_html_(self) -> str:
        shown = self.comparisons if self.runs.empty else self.runs
        columns = ["scheduler", "machine", "workload", "seed", "outcome", *SHOWN]
        return shown[[name for name in columns if name in shown] or list(shown)].to_html(index=False)


@dataclass(frozen=True)
class Campaign:
    """The directory of a campaign."""

    #: The directory, with ``runs.parquet`` and ``histograms.parquet``.
    directory: Path
    #: How far it is, as ``weir sweep --format json`` prints it.
    status: dict[str, Any]
    #: Whether no scheduler was ejected or refused, and nothing was violated.
    is_fine: bool

    @property
    def runs(self) -> pandas.DataFrame:
        """A row for each finished run."""
        return self._read("runs.parquet")

    @property
    def histograms(self) -> pandas.DataFrame:
        """A row for each bucket of the histograms of each finished run."""
        return self._read("histograms.parquet")

    @property
    def tasks(self) -> pandas.DataFrame:
        """A row for each task of each finished run. Raises :class:`FileNotFoundError` without ``tasks=True`` of the sweep."""
        return self._read("tasks.parquet")

    def _read(self, name: str) -> pandas.DataFrame:
        return pandas.read_parquet(os.fspath(self.directory / name), dtype_backend="numpy_nullable")

    def _repr_html_(self) -> str:
        runs = self.runs
        shown = [name for name in SHOWN if runs[name].notna().any()]
        return runs.groupby(["scheduler", "machine", "workload"])[shown].median().to_html()


@dataclass(frozen=True)
class Search:
    """The best setting of a campaign, and what is known of the others."""

    #: A row for each candidate of each combination of the other axes, with fate, rank, difference and interval.
    candidates: pandas.DataFrame
    #: The JSON document of the program.
    document: dict[str, Any]
    #: Whether no scheduler was ejected or refused, and nothing was violated.
    is_fine: bool

    @staticmethod
    def of(document: dict[str, Any], is_fine: bool) -> Search:
        """The searches of a JSON document."""
        axes = ["machine", "workload", "kernel", "cpus", "without"]
        rows = [
            {axis: search[axis] for axis in axes} | candidate
            for search in document["searches"]
            for candidate in search["candidates"]
        ]
        return Search(frame(rows), document, is_fine)

    @property
    def found(self) -> str:
        """``best``, ``leads``, ``tied`` or ``nothing``, if the campaign has one combination of the other axes."""
        return self._only()["found"]

    @property
    def first(self) -> str | None:
        """The leader, if the campaign has one combination of the other axes."""
        return self._only()["first"]

    @property
    def tied(self) -> list[str]:
        """Candidates that cannot be told apart from the leader, if the campaign has one combination of the other axes."""
        return self._only()["tied"]

    def _only(self) -> dict[str, Any]:
        searches = self.document["searches"]
        if len(searches) != 1:
            raise ValueError(f"{len(searches)} searches, one for each combination of the other axes; read candidates")
        return searches[0]

    def _repr_html_(self) -> str:
        several = [axis for axis in ("machine", "workload", "kernel", "cpus", "without") if self.candidates[axis].nunique() > 1]
        shown = ["scheduler", "fate", "seeds", "median", "diff_ppm", "diff_ppm_low", "diff_ppm_high"]
        return self.candidates[several + shown].to_html(index=False)
