# SPDX-License-Identifier: GPL-2.0-only
# After everything: no scheduler, no BPF program in the kernel (its symbols stay with it), no pin, no process of ours.
. /steps/lib.sh
disabled || fail "a scheduler is there"
pidof weir && fail "weir still runs"
no_programs() { ! grep '\[bpf\]$' /proc/kallsyms; }
eventually 20 no_programs || fail "BPF programs are left"
[ -z "$(find /sys/fs/bpf -mindepth 1)" ] || fail "pinned: $(find /sys/fs/bpf -mindepth 1)"
