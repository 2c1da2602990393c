# SPDX-License-Identifier: GPL-2.0-only
# Records a command and simulates the recording.
. /steps/lib.sh
weir record -o /tmp/it.weir -- sh -c 'for i in 1 2 3 4 5; do seq 1000 | tail -n 1; done' >/tmp/out 2>&1
status=$?
tail -n 20 /tmp/out
[ $status = 0 ] || fail "status $status"
weir sim fifo --machine laptop-2c4t --workload /tmp/it.weir --format json >/tmp/out 2>&1
status=$?
[ $status = 0 ] || { tail -n 20 /tmp/out; fail "weir sim ends with status $status"; }
tasks=$(grep -o '"name": *"\(seq\|tail\)"' /tmp/out | wc -l)
[ "$tasks" = 10 ] || fail "$tasks tasks are seq or tail; expected 10"

# Short processes on all CPUs at once, none of which may be lost: each of 8 shells has 40 children.
storm='f() { i=0; while [ $i -lt 40 ]; do busybox true; i=$((i + 1)); done; }; for j in 1 2 3 4 5 6 7 8; do f & done; wait'
weir record -o /tmp/storm.weir -- sh -c "$storm" >/tmp/out 2>&1
status=$?
tail -n 20 /tmp/out
[ $status = 0 ] || fail "recording short processes ends with status $status"
grep -q ' 329 tasks' /tmp/out || fail "expected 329 tasks: 8 shells of 40 children, and the first"

# The cost of an interrupt to a halted CPU is measured before each recording, by two tasks that wake each other after
# long work, and is kept if the recorder counted such interrupts.
weir workload /tmp/it.weir --format json >/tmp/out || fail "weir workload fails"
grep -q '"interrupt_to_halted"' /tmp/out || fail "no interrupt to a halted CPU was counted"
