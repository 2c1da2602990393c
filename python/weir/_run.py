# SPDX-License-Identifier: GPL-2.0-only
"""Calls of the program that give results."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _ray
from ._frames import Campaign, Runs, Search
from ._program import call

#: One value or several of them.
Some = str | int | Sequence[str | int]
#: A path of the file system.
Name = str | os.PathLike[str]


def texts(values: Some | None) -> list[str]:
    """The values as texts."""
    if values is None:
        return []
    if isinstance(values, (str, int)):
        return [str(values)]
    return [str(value) for value in values]


def options(more: Mapping[str, Some | bool | None]) -> list[str]:
    """Words for ``name=value``: ``noise_off="order"`` is ``--noise-off order``, and ``check=True`` is ``--check``."""
    words: list[str] = []
    for name, value in more.items():
        option = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            words += [option] if value else []
        else:
            words += [word for text in texts(value) for word in (option, text)]
    return words


def sim(
    scheduler: Some,
    *,
    machine: Some = "host",
    workload: Some = "build",
    duration: str | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    draws: int | None = None,
    without: Some | None = None,
    **more: Some | bool | None,
) -> Runs:
    """Simulates every combination of scheduler, machine, workload and seed, as ``weir sim``.

    ``duration`` is ``--for``; ``more`` are other options by their names, such as ``kernel="6.18"``.
    """
    words = ["sim", "--format", "json"]
    given = {"machine": machine, "workload": workload, "for": duration, "seed": seed, "seeds": seeds, "draws": draws}
    words += options({**given, **more})
    if without is not None:
        words += ["--without", ",".join(texts(without))]
    output, is_fine = call([*words, "--", *texts(scheduler)])
    return Runs.of(json.loads(output), is_fine)


def compare(*files: Name) -> Runs:
    """Compares saved runs, or runs as JSON, as ``weir compare``."""
    output, is_fine = call(["compare", "--format", "json", "--", *(os.fspath(file) for file in files)])
    return Runs.of(json.loads(output), is_fine)


def sweep(
    campaign: Name | Mapping[str, Any],
    out: Name,
    *,
    on: str = "local",
    jobs: int | None = None,
    shard: str | None = None,
    parts: int | None = None,
    files: Sequence[Name] = (),
    tasks: bool = False,
) -> Campaign:
    """Does the missing runs of a campaign, as ``weir sweep``.

    ``campaign`` is the path of its file, or its content as a mapping, which is then written to ``out``:
    ``{"axes": {"scheduler": ["kernel", "bfs"], "seed": "1-16"}, "options": {"for": "1s"}}``.

    ``on`` is ``"local"``, ``"slurm"`` or ``"ray"``. With Ray, the missing runs are divided into ``parts`` tasks on the
    cluster that ``ray.init`` finds, whose nodes need this package. ``files`` are the files that the campaign names, by
    relative paths; they are sent to the nodes. A part whose node is lost is done by another one.

    With ``tasks``, the tasks of each run are kept, too: :attr:`Campaign.tasks`.

    Raises :class:`ValueError` for arguments without effect: ``jobs``, ``shard`` and ``tasks`` with Ray, ``files`` without it.
    """
    if on == "ray" and (jobs is not None or shard is not None or tasks):
        raise ValueError("jobs, shard and tasks are without effect on Ray; expected parts")
    if on != "ray" and files:
        raise ValueError("files are without effect, since they are sent to the nodes of Ray only; expected on='ray'")
    directory = Path(out)
    file = file_of(campaign, directory)
    if on == "ray":
        output, is_fine = _ray.sweep(file, directory, parts, files)
    else:
        words = ["sweep", os.fspath(file), "--out", os.fspath(directory), "--format", "json"]
        output, is_fine = call([*words, *options({"on": on, "jobs": jobs, "shard": shard, "parts": parts, "tasks": tasks})])
    return Campaign(directory, json.loads(output)["sweep"], is_fine)


def search(
    campaign: Name | Mapping[str, Any],
    out: Name,
    *,
    minimize: str | None = None,
    maximize: str | None = None,
    finalists: int | None = None,
    jobs: int | None = None,
) -> Search:
    """Searches the schedulers of a campaign for the best one by a measure, as ``weir sweep --minimize``.

    ``campaign`` and ``out`` are those of :func:`sweep`, whose finished runs it uses again.

    Raises :class:`ValueError` unless exactly one of ``minimize`` and ``maximize`` names a measure.
    """
    if (minimize is None) == (maximize is None):
        raise ValueError("expected one of minimize and maximize, with the key of a measure such as wakeup_latency_ns.p99")
    directory = Path(out)
    words = ["sweep", os.fspath(file_of(campaign, directory)), "--out", os.fspath(directory), "--format", "json"]
    given = {"minimize": minimize, "maximize": maximize, "finalists": finalists, "jobs": jobs}
    output, is_fine = call([*words, *options(given)])
    return Search.of(json.loads(output), is_fine)


def file_of(campaign: Name | Mapping[str, Any], directory: Path) -> Path:
    """The file of a campaign; a mapping is written to the directory."""
    if not isinstance(campaign, Mapping):
        return Path(campaign)
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "campaign.toml"
    file.write_text(to_toml(campaign), encoding="utf-8")
    return file


def to_toml(campaign: Mapping[str, Any]) -> str:
    """A campaign as TOML: tables of texts, numbers, truth values and lists of them; ``exclude`` is a list of tables."""
    # Texts, numbers and lists of JSON are also TOML.
    lines: list[str] = []
    for name, tables in campaign.items():
        is_list = not isinstance(tables, Mapping)
        for table in tables if is_list else [tables]:
            lines.append(f"[[{name}]]" if is_list else f"[{name}]")
            lines += [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"
