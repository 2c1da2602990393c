# SPDX-License-Identifier: GPL-2.0-only
"""Finds and calls the program ``weir``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence

#: Environment variable with the path of the program, before all other places.
VARIABLE = "WEIR_PROGRAM"
#: Exit status if a run or a check failed, as opposed to bad usage or input.
FAILED = 1
#: First words of the program's messages.
ERROR = "weir: error: "


class WeirError(Exception):
    """An error of the program, with its message."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        #: Exit status of the program.
        self.status = status

    def __reduce__(self) -> tuple[type[WeirError], tuple[str, int]]:
        # The default has only the message: a worker's exception could not be unpickled.
        return type(self), (str(self), self.status)


class BadInput(WeirError):
    """Bad usage or input (exit status 2)."""


class RunFailed(WeirError):
    """A run failed and there is no result (exit status 1, or a signal)."""


def program() -> str:
    """Path of the program: ``$WEIR_PROGRAM``, that of this package, or that of the ``PATH``."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    for directory in (sysconfig.get_path("scripts"), os.path.dirname(sys.executable)):
        path = os.path.join(directory, "weir")
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("weir")
    if found is None:
        raise FileNotFoundError(f"no program weir beside Python or in the PATH; {VARIABLE} may name it")
    return found


def call(words: Sequence[str]) -> tuple[str, bool]:
    """Calls the program. Returns its standard output, and whether all runs did what they should.

    Raises :class:`BadInput` or :class:`RunFailed` with the program's message.
    """
    done = subprocess.run([program(), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return done.stdout, True
    if done.returncode == FAILED and done.stdout.strip():
        return done.stdout, False
    lines = [line for line in done.stderr.splitlines() if line.startswith(ERROR)]
    message = lines[-1].removeprefix(ERROR) if lines else done.stderr.strip() or f"ended with {done.returncode}"
    raise (BadInput if done.returncode == 2 else RunFailed)(message, done.returncode)
