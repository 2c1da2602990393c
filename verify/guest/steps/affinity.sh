# SPDX-License-Identifier: GPL-2.0-only
# Tasks that may run on one CPU alone, one that is busy and one that sleeps, when that CPU goes and comes. The kernel lets the
# busy one run anywhere from then on; `weir run --keep-affinity` gives it back what it had. $1 is SCHEDULER; the command
# under it is this script with "inside" and the affinity that the busy one shall have in the end.
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
    # weir looks at the affinities of all tasks once a second.
    sleep 3
    set_cpu "$cpu" 0 || fail "CPU $cpu does not go"
    echo "CPU $cpu has gone: busy $(allowed $busy), asleep $(allowed $asleep)"
    has "$busy" "$cpu" && fail "the kernel did not widen the affinity of the busy task"
    sleep 1
    set_cpu "$cpu" 1 || fail "CPU $cpu does not come"
    if [ "$1" = renewed ]; then
        eventually 20 has "$busy" "$cpu" || fail "the busy task may run on CPUs $(allowed $busy)"
    else
        sleep 3
        has "$busy" "$cpu" && fail "the kernel itself has renewed the affinity"
    fi
    echo "CPU $cpu is back: busy $(allowed $busy), asleep $(allowed $asleep)"
    has "$asleep" "$cpu" || fail "the sleeping task may run on CPUs $(allowed $asleep)"
}

if [ "$1" = inside ]; then
    inside "$2"
    exit
fi
# An earlier step may have made the machine quiet.
taskset -p ffffffff $$ >/dev/null
weir run "$1" -- sh "$0" inside wide || fail "without --keep-affinity"
weir run "$1" --keep-affinity -- sh "$0" inside renewed || fail "with --keep-affinity"
disabled || fail "it is still there"
