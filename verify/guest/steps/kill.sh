# SPDX-License-Identifier: GPL-2.0-only
# weir is killed with SIGKILL: the kernel unloads the scheduler.
. /steps/lib.sh
load "$1"
kill -KILL "$WEIR"
wait "$WEIR"
eventually 10 disabled || fail "the scheduler is still loaded after weir was killed"

# The same while a CPU is offline, killed at different moments: the guardian process brings the CPU back, and the affinity
# of a busy task that the kernel widened meanwhile.
online() { [ "$(cat /sys/devices/system/cpu/cpu3/online)" = "$1" ]; }
allowed() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$busy/status"; }
pinned() { [ "$(allowed)" = 3 ]; }
gone() { ! pidof weir; }
# An earlier step may have called quieten.
taskset -p ffffffff $$ >/dev/null
taskset -c 3 yes >/dev/null &
busy=$!
eventually 20 pinned || fail "the busy task may run on CPUs $(allowed)"
for moment in 0 30000 110000 270000 640000; do
    weir run "$1" --faults cpu3:offline@200ms,cpu3:online@5s,cpu3:offline@6s -- sleep 60 >/tmp/weir.log 2>&1 &
    WEIR=$!
    eventually 60 online 0 || { cat /tmp/weir.log; fail "CPU 3 does not go offline"; }
    usleep $moment
    echo "killed $moment us after CPU 3 went offline: the busy task may run on CPUs $(allowed)"
    kill -KILL "$WEIR"
    wait "$WEIR"
    eventually 20 online 1 || fail "CPU 3 is still offline after weir was killed"
    eventually 5 gone || fail "the guardian still runs"
    eventually 20 pinned || fail "the busy task may run on CPUs $(allowed) in the end"
    grep 'weir run was killed; CPUs restored: 3' /tmp/weir.log || fail "the guardian does not report it"
    killall sleep
done
kill -KILL $busy

# Groups where a hierarchy of version 1 has the cpu controller: one clear error.
mkdir -p /tmp/cpu1
if mount -t cgroup -o cpu none /tmp/cpu1; then
    load='{"tasks": {"a": {"run": 1000, "taskgroup": "/g"}}, "global": {"duration": 1}}'
    echo "$load" >/tmp/groups.json
    weir run -w /tmp/groups.json >/tmp/weir.log 2>&1 && fail "groups are accepted without a cpu controller"
    cat /tmp/weir.log
    grep 'cgroup v2 has no cpu controller (cgroup v1' /tmp/weir.log || fail "the error does not name cgroup v1"
    umount /tmp/cpu1
else
    echo "this kernel has no cgroup v1 with a cpu controller: not tested"
fi
