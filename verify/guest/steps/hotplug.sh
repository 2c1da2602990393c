# SPDX-License-Identifier: GPL-2.0-only
# CPUs go one after the other, the first one first, until one is left, and come back, under load: the numbers of those
# that are there have gaps. A scheduler without cpu_offline is ejected with the code for a restart, and weir loads it again.
. /steps/lib.sh
load "$1"
for cpu in $(seq "$(nproc)"); do yes >/dev/null & done
# A task that may run on one CPU alone is the hardest to get rid of.
for cpu in $(movable_cpus); do taskset -c "$cpu" yes >/dev/null & done
first=$(enable_seq)
# A step that takes too long shows how far it came.
progress() { echo "CPU $*, $(cut -d' ' -f1 /proc/uptime) s, loaded $(($(enable_seq) - first)) times more"; }
for cpu in $(movable_cpus); do
    set_cpu "$cpu" 0 || fail "CPU $cpu does not go"
    eventually 30 enabled || { cat /tmp/weir.log; fail "not back after CPU $cpu went"; }
    progress "$cpu went"
done
[ "$(cat /sys/devices/system/cpu/online)" = 0 ] || fail "CPUs left: $(cat /sys/devices/system/cpu/online)"
for cpu in $(movable_cpus | sort -rn); do
    set_cpu "$cpu" 1 || fail "CPU $cpu does not come"
    eventually 30 enabled || { cat /tmp/weir.log; fail "not back after CPU $cpu came"; }
    progress "$cpu came"
done
killall yes
number restarts $(($(enable_seq) - first))
unload
