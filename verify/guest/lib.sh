# SPDX-License-Identifier: GPL-2.0-only
# Functions shared by the steps. A step ends with `fail` or with the status of its last command.
SCX=/sys/kernel/sched_ext

fail() {
    echo "FAILED: $*"
    exit 1
}

# Reports a number for the table of results.
number() { echo "$STEP $1 $2" >>/out/numbers; }

enabled() { [ "$(cat $SCX/state)" = enabled ]; }
disabled() { [ "$(cat $SCX/state 2>/dev/null || echo disabled)" = disabled ]; }
enable_seq() { cat $SCX/enable_seq; }
# The kernel increments enable_seq after it has set the state to "enabled", in a task that may have to wait for a CPU
# under the new scheduler in between.
counted() { enabled && [ "$(enable_seq)" -gt "$LOADED" ]; }

seconds() { cut -d. -f1 /proc/uptime; }

# eventually SECONDS COMMAND...: waits until the command succeeds.
eventually() {
    deadline=$(($(seconds) + $1))
    shift
    until "$@"; do
        [ "$(seconds)" -le $deadline ] || return 1
        usleep 50000
    done
}

# load SCHEDULER: loads it with `weir run` in the background; its process is $WEIR, its output /tmp/weir.log.
load() {
    LOADED=$(enable_seq)
    weir run "$1" >/tmp/weir.log 2>&1 &
    WEIR=$!
    if ! eventually 60 counted; then
        cat /tmp/weir.log
        fail "$1 does not load within 60 s"
    fi
}

# unload: ends weir as a user does; it must exit with 0 and leave nothing.
unload() {
    kill -TERM "$WEIR"
    wait "$WEIR" || { status=$?; cat /tmp/weir.log; fail "weir ends with status $status"; }
    disabled || fail "the scheduler is still loaded after weir has exited"
}

# Online CPUs except 0, which cannot go offline.
movable_cpus() { ls -d /sys/devices/system/cpu/cpu[1-9]* | sed 's/.*cpu//' | sort -n; }
set_cpu() { echo "$2" >"/sys/devices/system/cpu/cpu$1/online"; }

# quieten: moves everything movable to CPU 0 and stops the rest, until the machine is powered off, so that conformance
# scenarios have the other CPUs to themselves. The caller and its children may still use all CPUs.
quieten() {
    echo 1 >/sys/devices/virtual/workqueue/cpumask
    echo 3600 >/proc/sys/vm/stat_interval
    echo 0 >/proc/sys/kernel/watchdog
    for task in /proc/[0-9]*; do
        [ "${task#/proc/}" = $$ ] || taskset -p 1 "${task#/proc/}"
    done >/dev/null 2>&1
}
