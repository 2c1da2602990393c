# SPDX-License-Identifier: GPL-2.0-only
# SysRq-S ejects the scheduler: weir prints the reason and exits.
. /steps/lib.sh
load "$1"
echo S >/proc/sysrq-trigger
eventually 10 disabled || fail "the scheduler is still loaded"
wait "$WEIR"
status=$?
cat /tmp/weir.log
[ $status = 1 ] || fail "status $status; expected 1"
grep -qi 'sysrq' /tmp/weir.log || fail "weir does not print the reason"
