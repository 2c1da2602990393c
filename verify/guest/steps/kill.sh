# SPDX-License-Identifier: GPL-2.0-only
# Who loads it is killed without a word: the kernel takes the scheduler away.
. /steps/lib.sh
load "$1"
kill -KILL "$WEIR"
wait "$WEIR"
eventually 10 disabled || fail "weir was killed and the scheduler is still there"

# The same while a CPU is away: somebody else brings it back.
online() { [ "$(cat /sys/devices/system/cpu/cpu3/online)" = "$1" ]; }
weir run "$1" --faults cpu3:offline@200ms -- sleep 60 >/tmp/weir.log 2>&1 &
WEIR=$!
eventually 60 online 0 || { cat /tmp/weir.log; fail "CPU 3 does not go"; }
kill -KILL "$WEIR"
wait "$WEIR"
eventually 20 online 1 || fail "weir was killed and CPU 3 is still away"
grep 'CPUs put back as they were, since weir run was killed: 3' /tmp/weir.log || fail "nobody says so"
gone() { ! pidof weir; }
eventually 5 gone || fail "the guardian is still there"
killall sleep
