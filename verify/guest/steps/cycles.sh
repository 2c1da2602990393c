# SPDX-License-Identifier: GPL-2.0-only
# Loads and unloads a scheduler many times: $1 is SCHEDULER:TIMES.
. /steps/lib.sh
times=${1#*:}
for cycle in $(seq "$times"); do
    load "${1%:*}"
    unload
done
number cycles "$times"
