# SPDX-License-Identifier: GPL-2.0-only
"""The layer gives what the program prints, and raises its messages. WEIR_PROGRAM names the program."""

import json
import pickle
import subprocess

import pandas
import pytest
import weir
from conftest import campaign
from weir import _ray

SETUP = {"machine": "laptop-2c4t", "workload": "video", "duration": "20ms"}
WORDS = ["-m", "laptop-2c4t", "-w", "video", "--for", "20ms"]
CAMPAIGN = {
    **campaign(workload="video", seed="1-3", duration="20ms"),
    "exclude": [{"scheduler": "bfs*", "seed": 3}],
}


def printed(*words):
    done = subprocess.run([weir.program(), *words], capture_output=True, check=True, text=True)
    return done.stdout


def test_sim_gives_the_runs_of_the_command_line():
    result = weir.sim(["kernel", "bfs"], seeds=8, **SETUP)
    document = json.loads(printed("sim", "kernel", "bfs", *WORDS, "--seeds", "8", "--format", "json"))
    assert result.document == document and result.is_fine
    assert len(result.runs) == 16 and str(result.runs["wakeups"].dtype) == "Int64"
    first = document["runs"][0]
    assert result.runs["wakeup_latency_ns.p99"][0] == first["wakeup_latency_ns"]["p99"]
    assert set(result.comparisons["measure"]) == {one["measure"] for one in document["comparisons"]}
    assert "<table" in result._repr_html_()


def test_options_have_their_names():
    quiet = weir.sim("fifo", seed=3, noise_off="order", without=["smt", "frequency"], check=True, **SETUP)
    assert "smt" not in quiet.document["runs"][0]["effects"]
    assert quiet.runs["violation_count"][0] == 0


def test_sweep_gives_the_tables_of_a_campaign(tmp_path):
    done = weir.sweep(CAMPAIGN, tmp_path / "out", jobs=1)
    assert (done.status["finished"], done.is_fine) == (7, True)
    runs = done.runs
    assert list(runs["scheduler.rr_interval_ms"].dropna().unique()) == [2, 6]
    one = weir.sim("bfs,rr_interval_ms=6", seed=2, **SETUP).runs.iloc[0]
    row = runs[(runs["scheduler"] == "bfs,rr_interval_ms=6") & (runs["seed"] == 2)].iloc[0]
    for key in ["log_hash", "wakeups", "run_delay_ns.mean", "object_hash"]:
        assert row[key] == one[key]
    counts = done.histograms.query("measure == 'wakeup_latency_ns'").groupby("run_id")["count"].sum()
    expected = runs.set_index("run_id")["wakeup_latency_ns.count"]
    assert (expected.sort_index() == counts.sort_index()).all()
    again = weir.sweep(tmp_path / "out/campaign.toml", tmp_path / "out")
    assert again.status["finished_now"] == 0
    assert "<table" in done._repr_html_()


def test_search_gives_the_candidates_of_the_command_line(tmp_path):
    wanted = {**campaign(workload="video", seed="1-8", duration="20ms")}
    found = weir.search(wanted, tmp_path / "out", minimize="context_switches", finalists=3)
    words = [str(tmp_path / "out/campaign.toml"), "--out", str(tmp_path / "out"), "--minimize", "context_switches"]
    document = json.loads(printed("sweep", *words, "--finalists", "3", "--format", "json"))
    assert found.document == document and found.is_fine and found.found in ("best", "leads", "tied")
    assert list(found.candidates["scheduler"])[0] == found.first and len(found.candidates) == 3
    assert set(found.candidates.query("fate == 'tied'")["scheduler"]) == set(found.tied)
    assert "<table" in found._repr_html_()
    with pytest.raises(ValueError, match="expected one of minimize and maximize"):
        weir.search(wanted, tmp_path / "out")
    with pytest.raises(weir.BadInput, match="no measure"):
        weir.search(wanted, tmp_path / "out", maximize="speed")


def test_tasks_are_a_table_on_demand(tmp_path):
    done = weir.sweep(CAMPAIGN, tmp_path / "out", tasks=True)
    tasks = done.tasks
    one = tasks[(tasks["scheduler"] == "bfs,rr_interval_ms=6") & (tasks["seed"] == 2)].set_index("id")
    document = json.loads(printed("sim", "bfs,rr_interval_ms=6", *WORDS, "--seed", "2", "--format", "json"))
    expected = document["runs"][0]["tasks"]
    assert len(one) == len(expected) > 4 and tasks["run_id"].nunique() == 7
    known = [name for name in tasks.columns if name not in done.runs.columns or name in ("work_ns",)]
    for task in expected:
        flat = {**task, **{f"{key}.{name}": value for key in ("wakeup_latency_ns", "response_ns", "late_ns")
                           for name, value in (task[key] or {}).items()}}
        row = one.loc[task["id"]]
        for name in known:
            if name != "id":
                value = flat.get(name)
                assert row[name] is pandas.NA if value is None else row[name] == value, (name, task)


def test_saved_runs_are_compared(tmp_path):
    for name in ["kernel", "bfs"]:
        printed("sim", name, *WORDS, "--seeds", "8", "--save", str(tmp_path / name))
    result = weir.compare(tmp_path / "kernel", tmp_path / "bfs")
    assert set(result.comparisons["b.scheduler"]) == {"bfs"} and result.runs.empty


def test_errors_have_the_message_of_the_program(tmp_path):
    with pytest.raises(weir.BadInput, match="no policy \"bfz\", did you mean bfs?") as caught:
        weir.sim("bfz", **SETUP)
    assert caught.value.status == 2
    with pytest.raises(weir.BadInput, match="campaign.toml:2: \"sheduler\": expected only scheduler"):
        weir.sweep({"axes": {"sheduler": "bfs"}}, tmp_path)


def test_campaign_whose_parts_leave_runs_undone_fails(tmp_path):
    weir.sweep(CAMPAIGN, tmp_path / "out", shard="1/2")
    with pytest.raises(weir.RunFailed, match="3 of 7 runs are missing after all parts"):
        _ray.finish(tmp_path / "out/campaign.toml", tmp_path / "out")
    weir.sweep(CAMPAIGN, tmp_path / "out", shard="2/2")
    output, is_fine = _ray.finish(tmp_path / "out/campaign.toml", tmp_path / "out")
    assert json.loads(output)["sweep"]["finished"] == 7 and is_fine


def test_machine_of_this_computer_is_refused_for_ray(tmp_path):
    with pytest.raises(weir.BadInput, match="machine host differs between nodes; expected a preset or a file"):
        weir.sweep({"axes": {"scheduler": "bfs"}}, tmp_path, on="ray")


@pytest.mark.parametrize("kind", [weir.WeirError, weir.BadInput, weir.RunFailed])
def test_exceptions_are_the_same_after_pickling(kind):
    copy = pickle.loads(pickle.dumps(kind("no policy", 2)))
    assert (type(copy), str(copy), copy.status) == (kind, "no policy", 2)


@pytest.mark.parametrize("name", ["/load.json", "../load.json", "a/../../load.json"])
def test_files_outside_the_directory_of_a_part_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match="expected a relative path without '..'"):
        weir.sweep(CAMPAIGN, tmp_path / "out", on="ray", files=[name])
    with pytest.raises(ValueError, match="expected a relative path without '..'"):
        _ray.do_part(b"", {name: b""}, {}, 1, 1)


@pytest.mark.parametrize("more", [{"jobs": 1, "on": "ray"}, {"shard": "1/2", "on": "ray"}, {"files": ["load.json"]}])
def test_arguments_without_effect_are_refused(tmp_path, more):
    with pytest.raises(ValueError, match="without effect"):
        weir.sweep(CAMPAIGN, tmp_path / "out", **more)
    assert not (tmp_path / "out").exists()


def test_missing_program_is_named(monkeypatch):
    monkeypatch.setenv("WEIR_PROGRAM", "/none/weir")
    with pytest.raises(FileNotFoundError, match="/none/weir"):
        weir.sim("bfs")
