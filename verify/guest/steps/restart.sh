# SPDX-License-Identifier: GPL-2.0-only
# A CPU goes and comes. The kernel ejects a scheduler that has no op for that, with the code that asks for a restart,
# and weir loads it again, each time once.
. /steps/lib.sh
load "$1"
first=$(enable_seq)
loaded_again() { [ "$(enable_seq)" -ge $((first + $1)) ] && enabled; }
set_cpu 3 0 || fail "CPU 3 does not go"
eventually 20 loaded_again 1 || { cat /tmp/weir.log; fail "not back after CPU 3 went"; }
set_cpu 3 1 || fail "CPU 3 does not come"
eventually 20 loaded_again 2 || { cat /tmp/weir.log; fail "not back after CPU 3 came"; }
[ "$(enable_seq)" = $((first + 2)) ] || fail "loaded $(($(enable_seq) - first)) times; expected 2"
unload
[ "$(grep -c 'loading it again, because a CPU came or went' /tmp/weir.log)" = 2 ] || fail "weir does not say so"
