# SPDX-License-Identifier: GPL-2.0-only
# weir is killed with SIGKILL: the kernel unloads the scheduler.
. /steps/lib.sh
load "$1"
kill -KILL "$WEIR"
wait "$WEIR"
eventually 10 disabled || fail "the scheduler is still loaded after weir was killed"

# The same while a CPU is offline: the guardian process brings it back.
online() { [ "$(cat /sys/devices/system/cpu/cpu3/online)" = "$1" ]; }
weir run "$1" --faults cpu3:offline@200ms -- sleep 60 >/tmp/weir.log 2>&1 &
WEIR=$!
eventually 60 online 0 || { cat /tmp/weir.log; fail "CPU 3 does not go offline"; }
kill -KILL "$WEIR"
wait "$WEIR"
eventually 20 online 1 || fail "CPU 3 is still offline after weir was killed"
grep 'weir run was killed; CPUs restored: 3' /tmp/weir.log || fail "the guardian does not report it"
gone() { ! pidof weir; }
eventually 5 gone || fail "the guardian still runs"
killall sleep
