# SPDX-License-Identifier: GPL-2.0-only
# Runs in the deterministic virtual machine: what calls cost goes to /out/costs.txt, each with its sum and its number.
echo 1 >/sys/kernel/tracing/tracing_on
weir run costs.bpf.o --workload latency.json >/out/run.txt || exit
sed -n 's/.*: cost //p' /sys/kernel/tracing/trace >/out/costs.txt
