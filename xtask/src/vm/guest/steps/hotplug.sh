# SPDX-License-Identifier: GPL-2.0-only
# CPUs go one after the other until one is left, and come back, under load. A scheduler without cpu_offline is ejected
# with the code for a restart, and weir loads it again.
. /steps/lib.sh
load "$1"
for cpu in $(seq "$(nproc)"); do yes >/dev/null & done
first=$(enable_seq)
for cpu in $(movable_cpus); do
    set_cpu "$cpu" 0 || fail "CPU $cpu does not go"
    eventually 30 enabled || { cat /tmp/weir.log; fail "not back after CPU $cpu went"; }
done
[ "$(cat /sys/devices/system/cpu/online)" = 0 ] || fail "CPUs left: $(cat /sys/devices/system/cpu/online)"
for cpu in $(movable_cpus); do
    set_cpu "$cpu" 1 || fail "CPU $cpu does not come"
    eventually 30 enabled || { cat /tmp/weir.log; fail "not back after CPU $cpu came"; }
done
killall yes
number restarts $(($(enable_seq) - first))
unload
