# SPDX-License-Identifier: GPL-2.0-only
# A command under the default scheduler is measured with the meter's BPF programs.
. /steps/lib.sh
weir run --format json -- sh -c 'seq 1000 | tail -n 1' >/tmp/out 2>/tmp/err
status=$?
cat /tmp/out
tail -n 5 /tmp/err
[ $status = 0 ] || fail "status $status"
grep -q '"context_switches": *[1-9]' /tmp/out || fail "no context switch was seen"
