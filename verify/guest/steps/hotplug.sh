# SPDX-License-Identifier: GPL-2.0-only
# Under load, CPUs go offline one after the other, the lowest first, until one is left, and come back: the numbers of
# online CPUs have gaps. A scheduler without cpu_offline is ejected with the code for a restart, and weir loads it
# again.
. /steps/lib.sh
load "$1"
for cpu in $(seq "$(nproc)"); do yes >/dev/null & done
# Pinned tasks are the hardest to move away.
for cpu in $(movable_cpus); do taskset -c "$cpu" yes >/dev/null & done
first=$(enable_seq)
# A step that times out shows its progress.
progress() { echo "CPU $*, $(cut -d' ' -f1 /proc/uptime) s, reloaded $(($(enable_seq) - first)) times"; }
for cpu in $(movable_cpus); do
    set_cpu "$cpu" 0 || fail "CPU $cpu does not go offline"
    eventually 30 enabled || { cat /tmp/weir.log; fail "not reloaded after CPU $cpu went offline"; }
    progress "$cpu offline"
done
[ "$(cat /sys/devices/system/cpu/online)" = 0 ] || fail "online CPUs: $(cat /sys/devices/system/cpu/online)"
for cpu in $(movable_cpus | sort -rn); do
    set_cpu "$cpu" 1 || fail "CPU $cpu does not come online"
    eventually 30 enabled || { cat /tmp/weir.log; fail "not reloaded after CPU $cpu came online"; }
    progress "$cpu online"
done
killall yes
number restarts $(($(enable_seq) - first))
unload
