# SPDX-License-Identifier: GPL-2.0-only
# Tasks that are pinned to one CPU, one busy and one asleep, when that CPU goes offline and comes back. The kernel
# then lets the busy one run anywhere; `weir run --keep-affinity` restores its affinity. $1 is SCHEDULER; the command
# run under it is this script with "inside" and the affinity that the busy task must have in the end.
. /steps/lib.sh
cpu=$(movable_cpus | tail -n 1)
allowed() { sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$1/status"; }
has() { [ "$(allowed "$1")" = "$2" ]; }

inside() {
    taskset -c "$cpu" yes >/dev/null &
    busy=$!
    taskset -c "$cpu" sleep 600 &
    asleep=$!
    trap 'kill -KILL $busy $asleep' EXIT
    eventually 20 has "$busy" "$cpu" || fail "the busy task may run on CPUs $(allowed $busy)"
    # weir reads the affinities of all tasks once a second.
    sleep 3
    set_cpu "$cpu" 0 || fail "CPU $cpu does not go offline"
    echo "CPU $cpu is offline: busy $(allowed $busy), asleep $(allowed $asleep)"
    has "$busy" "$cpu" && fail "the kernel did not widen the affinity of the busy task"
    sleep 1
    set_cpu "$cpu" 1 || fail "CPU $cpu does not come online"
    if [ "$1" = renewed ]; then
        eventually 20 has "$busy" "$cpu" || fail "the busy task may run on CPUs $(allowed $busy)"
    else
        sleep 3
        has "$busy" "$cpu" && fail "the kernel itself has restored the affinity"
    fi
    echo "CPU $cpu is back: busy $(allowed $busy), asleep $(allowed $asleep)"
    has "$asleep" "$cpu" || fail "the sleeping task may run on CPUs $(allowed $asleep)"
}

if [ "$1" = inside ]; then
    inside "$2"
    exit
fi
# An earlier step may have called quieten.
taskset -p ffffffff $$ >/dev/null
weir run "$1" -- sh "$0" inside wide || fail "without --keep-affinity"
weir run "$1" --keep-affinity -- sh "$0" inside renewed || fail "with --keep-affinity"
disabled || fail "the scheduler is still loaded"
