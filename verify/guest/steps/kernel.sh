# SPDX-License-Identifier: GPL-2.0-only
# The kernel has what Weir needs, and the machine has the CPUs that were asked for.
. /steps/lib.sh
[ -d $SCX ] || fail "this kernel has no sched_ext"
[ -s /sys/kernel/btf/vmlinux ] || fail "this kernel has no BTF"
disabled || fail "a scheduler is there already"
[ "$(nproc)" = "$1" ] || fail "$(nproc) CPUs; expected $1"
