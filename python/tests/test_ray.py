# SPDX-License-Identifier: GPL-2.0-only
"""A campaign on a real Ray cluster of three nodes, each with processes of its own on this machine."""

import threading
import time

import pytest
import weir
from conftest import campaign

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")

WORKLOAD = '{"global": {"duration": 1}, "tasks": {"a": {"instance": 3, "run": 900, "sleep": 300}}}'
CAMPAIGN = campaign(workload="./load.json", seed="1-40", duration="100ms")


@pytest.fixture
def cluster():
    made = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    yield made
    ray.shutdown()
    made.shutdown()


def tables(directory):
    return [(directory / name).read_bytes() for name in ("runs.parquet", "histograms.parquet")]


def test_campaign_on_a_cluster_has_the_tables_of_one_computer_although_a_node_is_killed(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "load.json").write_text(WORKLOAD)
    weir.sweep(CAMPAIGN, "here")
    lost = [cluster.add_node(num_cpus=1), cluster.add_node(num_cpus=1)][1]
    cluster.wait_for_nodes()
    ray.init(address=cluster.address)
    done = []
    sweep = threading.Thread(target=lambda: done.append(weir.sweep(CAMPAIGN, "out", on="ray", parts=12, files=["load.json"])))
    sweep.start()
    while not list(tmp_path.glob("out/results/*.runs")):
        assert sweep.is_alive(), "the campaign ended without any result"
        time.sleep(0.01)
    cluster.remove_node(lost, allow_graceful=False)
    was_amid = sweep.is_alive()
    sweep.join()
    assert was_amid, "the campaign had ended before the node was killed"
    assert done[0].status["finished"] == 120
    assert tables(tmp_path / "out") == tables(tmp_path / "here")
    # What is finished is not done again.
    before = sorted(tmp_path.glob("out/results/*.runs"))
    again = weir.sweep(CAMPAIGN, "out", on="ray", parts=2, files=["load.json"])
    assert again.status["finished"] == 120 and sorted(tmp_path.glob("out/results/*.runs")) == before
