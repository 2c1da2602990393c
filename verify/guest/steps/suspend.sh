# SPDX-License-Identifier: GPL-2.0-only
# The machine is suspended (S3) while all CPUs are busy, and its clock wakes it: tasks are frozen, all CPUs but CPU 0
# go offline, and everything comes back. A scheduler without cpu_offline is reloaded. Tasks under the scheduler
# continue under it. $1 is SCHEDULER; the command run under it is this script with "inside" and the number of suspends
# so far.
. /steps/lib.sh
slept() { cat /sys/power/suspend_stats/success; }
uptime() { cut -d' ' -f1 /proc/uptime; }
woke() { [ "$(slept)" = $(($1 + 1)) ]; }

# under_scheduler: all hogs are sched_ext tasks. ran: CPU time of each hog, in ticks of 10 ms.
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
    eventually 60 woke "$1" || fail "the machine does not suspend, or does not wake"
    echo "awake at $(uptime) s"
    eventually 30 enabled || fail "the scheduler is not reloaded"
    [ "$(cat /sys/devices/system/cpu/online)" = "0-$(($(nproc) - 1))" ] || fail "not all CPUs are online"
    eventually 20 under_scheduler || fail "not all hogs are sched_ext tasks"
    before=$(ran)
    eventually 20 gone_on || fail "not all hogs continue: they had run $before ticks and have run" $(ran)
    echo "all hogs have continued at $(uptime) s"
}

if [ "$1" = inside ]; then
    inside "$2"
    exit
fi
if ! grep -qw mem /sys/power/state; then
    echo "this kernel has no suspend support"
    number sleeps 0
    exit
fi
# An earlier step may have called quieten.
taskset -p ffffffff $$ >/dev/null
first=$(enable_seq)
weir run "$1" --faults suspend@1s+4s -- sh "$0" inside "$(slept)" >/tmp/out 2>&1
status=$?
cat /tmp/out
[ $status = 0 ] || fail "status $status"
grep -q '^all hogs have continued' /tmp/out || fail "the command did not finish"
number sleeps 1
number restarts $(($(enable_seq) - first - 1))
disabled || fail "the scheduler is still loaded"
