# SPDX-License-Identifier: GPL-2.0-only
# The machine sleeps (S3) while all CPUs are busy, and its clock wakes it: tasks are frozen, all CPUs but the first go, and
# everything comes back. A scheduler without cpu_offline is loaded again. What runs under the scheduler goes on under it.
# $1 is SCHEDULER; the command under it is this script with "inside" and the number of sleeps so far.
. /steps/lib.sh
slept() { cat /sys/power/suspend_stats/success; }
uptime() { cut -d' ' -f1 /proc/uptime; }
woke() { [ "$(slept)" = $(($1 + 1)) ]; }

# Of all hogs: that they are tasks of the scheduler, and what each has run, in ticks of 10 ms.
under_scheduler() { [ "$(grep -l 'ext.enabled *: *1' $(printf '/proc/%s/sched ' $hogs) | wc -l)" = "$(nproc)" ]; }
ran() { awk '{ print $14 + $15 }' $(printf '/proc/%s/stat ' $hogs); }
gone_on() {
    ran | awk -v before="$before" 'BEGIN { n = split(before, b) } $1 < b[NR] + 20 { n = 0 } END { exit NR != n }'
}

inside() {
    hogs=
    trap 'kill -KILL $hogs' EXIT
    for cpu in $(seq "$(nproc)"); do
        yes >/dev/null &
        hogs="$hogs $!"
    done
    eventually 60 woke "$1" || fail "the machine does not sleep, or does not wake"
    echo "awake at $(uptime) s"
    eventually 30 enabled || fail "the scheduler is not back"
    [ "$(cat /sys/devices/system/cpu/online)" = "0-$(($(nproc) - 1))" ] || fail "not all CPUs are back"
    eventually 20 under_scheduler || fail "not all tasks are the scheduler's"
    before=$(ran)
    eventually 20 gone_on || fail "not all tasks go on: they had run $before ticks and have run" $(ran)
    echo "all tasks have gone on at $(uptime) s"
}

if [ "$1" = inside ]; then
    inside "$2"
    exit
fi
if ! grep -qw mem /sys/power/state; then
    echo "this kernel was built without sleep"
    number sleeps 0
    exit
fi
# An earlier step may have made the machine quiet.
taskset -p ffffffff $$ >/dev/null
first=$(enable_seq)
weir run "$1" --faults suspend@1s+4s -- sh "$0" inside "$(slept)" >/tmp/out 2>&1
status=$?
cat /tmp/out
[ $status = 0 ] || fail "status $status"
grep -q '^all tasks have gone on' /tmp/out || fail "the command did not come to its end"
number sleeps 1
number restarts $(($(enable_seq) - first - 1))
disabled || fail "it is still there"
