# SPDX-License-Identifier: GPL-2.0-only
# At the end: no scheduler, no BPF program in the kernel (including their symbols), no pinned object, no process of
# Weir.
. /steps/lib.sh
disabled || fail "a scheduler is loaded"
pidof weir && fail "weir still runs"
no_programs() { ! grep '\[bpf\]$' /proc/kallsyms; }
eventually 20 no_programs || fail "BPF programs are left"
[ -z "$(find /sys/fs/bpf -mindepth 1)" ] || fail "pinned: $(find /sys/fs/bpf -mindepth 1)"
