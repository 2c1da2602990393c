# SPDX-License-Identifier: GPL-2.0-only
"""Does a campaign on a Ray cluster. Each task does one part of the runs that are missing and returns its results."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path, PurePath

from ._program import BadInput, RunFailed, call, program

#: Subdirectory and ending of files of finished runs (docs/reference/campaigns.md).
RESULTS, ENDING = "results", ".runs"
#: Parts for each CPU of the cluster: a lost node loses one of them, and the last ones to end leave few CPUs idle.
PARTS_PER_CPU = 4
#: Times that a part is done again after the loss of its node.
RETRIES = 20

#: Contents by relative path.
Files = Mapping[str, bytes]


def results(directory: Path) -> dict[str, bytes]:
    """The files of finished runs of a directory."""
    paths = sorted((directory / RESULTS).glob("*" + ENDING))
    return {f"{RESULTS}/{path.name}": path.read_bytes() for path in paths}


def do_part(campaign: bytes, files: Files, before: Files, part: int, parts: int) -> list[bytes]:
    """Does the missing runs of a part. Returns the contents of the files with their results."""
    with tempfile.TemporaryDirectory(prefix="weir-") as place:
        write(Path(place), {**files, "campaign.toml": campaign})
        write(Path(place, "out"), before)
        words = ["sweep", "campaign.toml", "--out", "out", "--shard", f"{part}/{parts}", "--jobs", "1"]
        done = subprocess.run([program(), *words], cwd=place, capture_output=True, text=True, check=False)
        # Exit status 1 says that a scheduler was ejected, which is a result.
        if done.returncode not in (0, 1):
            raise RunFailed(done.stderr.strip(), done.returncode)
        after = results(Path(place, "out"))
        return [content for name, content in after.items() if name not in before]


def write(directory: Path, files: Files) -> None:
    """Writes files below a directory. Raises :class:`ValueError` if a path leaves it."""
    for name, content in files.items():
        path = directory / below(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def below(name: str | os.PathLike[str]) -> str:
    """A path that stays below its directory. Raises :class:`ValueError` for others."""
    path = PurePath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{path}: expected a relative path without '..'")
    return os.fspath(path)


def keep(directory: Path, content: bytes) -> None:
    """Adds results to a campaign's directory. Its name is its hash, so what comes twice is there once."""
    path = directory / RESULTS / (sha256(content).hexdigest() + ENDING)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_bytes(content)
    part.rename(path)


def sweep(file: Path, directory: Path, parts: int | None, files: Sequence[str | os.PathLike[str]]) -> tuple[str, bool]:
    """Does the missing runs of a campaign. Returns the JSON of ``weir sweep``, and whether all runs completed.

    Raises :class:`RunFailed` if runs are missing after all parts, and :class:`ValueError` if a path of ``files`` is
    absolute or has ``..``.
    """
    names = [below(name) for name in files]
    check(file, directory)
    import ray

    if not ray.is_initialized():
        ray.init()
    cpus = int(ray.cluster_resources().get("CPU", 1))
    parts = parts or PARTS_PER_CPU * cpus
    sent = ray.put({name: Path(name).read_bytes() for name in names})
    before, campaign = ray.put(results(directory)), ray.put(file.read_bytes())
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(do_part)
    waiting = [task.remote(campaign, sent, before, part, parts) for part in range(1, parts + 1)]
    while waiting:
        ready, waiting = ray.wait(waiting)
        for content in ray.get(ready[0]):
            keep(directory, content)
    return finish(file, directory)


def check(file: Path, directory: Path) -> None:
    """Raises :class:`BadInput` if a campaign has an error, or means the computer on which its runs are done."""
    output, _ = call(["sweep", os.fspath(file), "--out", os.fspath(directory), "--status", "--format", "json"])
    for key in json.loads(output)["sweep"]["host"]:
        expected = "a preset or a file" if key == "machine" else "a version"
        raise BadInput(f"{file}: {key} host differs between nodes; expected {expected}", 2)


def finish(file: Path, directory: Path) -> tuple[str, bool]:
    """Writes the tables. Returns the JSON of ``weir sweep``, and whether all runs completed.

    Raises :class:`RunFailed` if runs are missing.
    """
    output, is_fine = call(["sweep", os.fspath(file), "--out", os.fspath(directory), "--tables", "--format", "json"])
    status = json.loads(output)["sweep"]
    if status["missing"]:
        problem = f"{status['missing']} of {status['runs']} runs are missing after all parts: inputs differ between nodes"
        raise RunFailed(f"{problem}; expected the same version of weir and the same files", 1)
    return output, is_fine
