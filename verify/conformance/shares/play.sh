# SPDX-License-Identifier: GPL-2.0-only
# Runs in the deterministic virtual machine: each workload under each policy. What came of it goes to /out.
sleep 2
for workload in shares-2 shares-4 latency latency-busy latency-nice latency-shaken; do
    for policy in fifo bfs; do
        weir run $policy --workload $workload.json --format json >/out/$workload-$policy.json || exit
    done
done
