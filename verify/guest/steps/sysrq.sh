# SPDX-License-Identifier: GPL-2.0-only
# An operator throws the scheduler out with the system request key S: weir says so and ends.
. /steps/lib.sh
load "$1"
echo S >/proc/sysrq-trigger
eventually 10 disabled || fail "it is still there"
wait "$WEIR"
status=$?
cat /tmp/weir.log
[ $status = 1 ] || fail "status $status; expected 1"
grep -qi 'sysrq' /tmp/weir.log || fail "weir does not say why"
