# SPDX-License-Identifier: GPL-2.0-only
# Runs in the deterministic virtual machine with 2 CPUs: the workloads for one CPU under the kernel's own classes. The
# saved runs go to /out. There are no groups of tasks, as the model has none.
echo 0 >/proc/sys/kernel/sched_autogroup_enabled
sleep 2
for workload in hogs-1 light-1 periodic-1 pingpong-1; do
    weir run --workload $workload.json --save /out/$workload.weirrun >/dev/null || [ $? -eq 1 ] || exit
done
