# SPDX-License-Identifier: GPL-2.0-only
"""The notebooks of ``examples/`` are executed: by nbclient if it is there, else cell by cell."""

import json
from pathlib import Path

import pytest

pytest.importorskip("matplotlib").use("Agg")

NOTEBOOKS = sorted(Path(__file__).parents[2].glob("examples/*.ipynb"))


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_has_no_outputs_and_its_cells_run(path, tmp_path, monkeypatch):
    notebook = json.loads(path.read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(code) >= 3 and not any(cell["outputs"] or cell["execution_count"] for cell in code)
    monkeypatch.chdir(tmp_path)
    try:
        import ipykernel  # noqa: F401
        import nbclient
        import nbformat
    except ImportError:
        scope = {}
        for number, cell in enumerate(code):
            exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), scope)
    else:
        nbclient.NotebookClient(nbformat.read(path, as_version=4), timeout=300).execute()
    assert list(tmp_path.glob("*/runs.parquet"))
