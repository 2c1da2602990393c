# SPDX-License-Identifier: GPL-2.0-only
# Checks that the kernel has what Weir needs, and that the machine has the requested number of CPUs.
. /steps/lib.sh
[ -d $SCX ] || fail "this kernel has no sched_ext"
[ -s /sys/kernel/btf/vmlinux ] || fail "this kernel has no BTF"
disabled || fail "a scheduler is already loaded"
[ "$(nproc)" = "$1" ] || fail "$(nproc) CPUs; expected $1"
