# SPDX-License-Identifier: GPL-2.0-only
# A command is recorded, and what was recorded can be simulated.
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
