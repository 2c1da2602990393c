# SPDX-License-Identifier: GPL-2.0-only
# Programs of a scheduler are called while it runs, and their return values are reported.
. /steps/lib.sh
weir run nix@groups --format json --call switch_groups:steal=0@300ms -- sleep 1 >/tmp/out 2>&1
status=$?
[ $status = 0 ] || { cat /tmp/out; fail "status $status"; }
grep -q '"returned": *0' /tmp/out || { cat /tmp/out; fail "the call did not return 0"; }
weir run sets --call assign:group=nobody,cpus=1@100ms -- sleep 1 >/tmp/out 2>&1
status=$?
[ $status = 1 ] || { cat /tmp/out; fail "status $status after a call that failed; expected 1"; }
grep -q 'CALL FAILED: assign:group=nobody,cpus=1@100ms returned -2' /tmp/out ||
	{ cat /tmp/out; fail "the failed call is not reported"; }
