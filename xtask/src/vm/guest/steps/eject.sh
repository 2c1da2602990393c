# SPDX-License-Identifier: GPL-2.0-only
# A scheduler that loses every task is ejected by the kernel's watchdog; weir says so and ends with status 1.
. /steps/lib.sh
timeout 60 weir run "$1" >/tmp/out 2>&1
status=$?
cat /tmp/out
[ $status = 1 ] || fail "status $status; expected 1"
grep -q 'runnable task stall' /tmp/out || fail "weir does not say why"
dmesg | grep 'disabled (runnable task stall)' || fail "the kernel does not say so"
