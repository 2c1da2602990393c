# SPDX-License-Identifier: GPL-2.0-only
# A CPU goes offline and comes back. The kernel ejects a scheduler without hotplug ops with the code that requests a
# restart, and weir reloads it once each time.
. /steps/lib.sh
load "$1"
first=$(enable_seq)
loaded_again() { [ "$(enable_seq)" -ge $((first + $1)) ] && enabled; }
set_cpu 3 0 || fail "CPU 3 does not go offline"
eventually 20 loaded_again 1 || { cat /tmp/weir.log; fail "not reloaded after CPU 3 went offline"; }
set_cpu 3 1 || fail "CPU 3 does not come online"
eventually 20 loaded_again 2 || { cat /tmp/weir.log; fail "not reloaded after CPU 3 came online"; }
[ "$(enable_seq)" = $((first + 2)) ] || fail "loaded $(($(enable_seq) - first)) times; expected 2"
unload
[ "$(grep -c 'reloading it because of CPU hotplug' /tmp/weir.log)" = 2 ] || fail "weir does not report the reloads"
