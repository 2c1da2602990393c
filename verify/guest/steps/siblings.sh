# SPDX-License-Identifier: GPL-2.0-only
# A recording contains the time for which a task's SMT sibling was busy. Cores have two hardware threads here.
. /steps/lib.sh
threads=$(tr ',-' '  ' </sys/devices/system/cpu/cpu0/topology/thread_siblings_list)
set -- $threads
[ $# = 2 ] || fail "threads of CPU 0's core are: $threads; expected two"
together=$2
apart=1
[ $apart != "$together" ] || apart=2

# beside_ms CPU: two tasks run for 2 s, on CPU 0 and on CPU; prints how long another task was busy beside them.
beside_ms() {
    hog="timeout 2 sh -c 'while :; do :; done'"
    weir record -o /tmp/two.weir -- sh -c "taskset 1 $hog & taskset $(printf %x $((1 << $1))) $hog; wait" >/tmp/out 2>&1 ||
        { tail -n 20 /tmp/out; fail "weir record fails"; }
    ns=$(weir workload /tmp/two.weir --format json | sed -n 's/.*"beside_busy_thread_ns": *\([0-9]*\).*/\1/p')
    echo $((${ns:-0} / 1000000))
}

beside=$(beside_ms "$together") || fail "$beside"
[ "$beside" -ge 3000 ] || fail "$beside ms beside the other thread of the core; expected 4000"
number beside_ms "$beside"
beside=$(beside_ms "$apart") || fail "$beside"
[ "$beside" -le 400 ] || fail "$beside ms on two cores; expected none"
number apart_ms "$beside"
