# SPDX-License-Identifier: GPL-2.0-only
# A command runs under the scheduler; when it exits, the scheduler is unloaded.
. /steps/lib.sh
weir run "$1" -- sh -c "cd $SCX; cat state root/ops; grep ext.enabled /proc/self/sched" >/tmp/out 2>&1
status=$?
cat /tmp/out
[ $status = 0 ] || fail "status $status"
grep -qx enabled /tmp/out || fail "the command did not run under a scheduler"
grep -qx "${1%%@*}.*" /tmp/out || fail "the scheduler is not $1"
grep -q 'ext.enabled *: *1' /tmp/out || fail "the command was not a sched_ext task"
disabled || fail "the scheduler is still loaded after the command has exited"
