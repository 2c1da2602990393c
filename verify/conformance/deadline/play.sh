# SPDX-License-Identifier: GPL-2.0-only
# Runs in the deterministic virtual machine with 2 CPUs: the workloads of this directory under the kernel's own classes.
# The reports go to /out. There are no autogroups, as the model has none.
echo 0 >/proc/sys/kernel/sched_autogroup_enabled
sleep 2
for file in /in/*.json; do
    name=$(basename "$file" .json)
    weir run --workload "$file" --format json >"/out/$name.report" || [ $? -le 2 ] || exit
done
