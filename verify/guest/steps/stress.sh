# SPDX-License-Identifier: GPL-2.0-only
# Minutes of mixed stress: $1 is SCHEDULER:SECONDS. stress-ng and hackbench if the host has them, and short processes
# in any case.
. /steps/lib.sh
limit=${1#*:}
load "${1%:*}"
first=$(enable_seq)
for cpu in 1 2 3; do yes >/dev/null & done
if command -v stress-ng >/dev/null; then
    # Not --cpu: its methods use instructions that TCG does not emulate.
    stress-ng --temp-path /tmp --switch 2 --fork 2 --futex 2 --pipe 2 --yield 2 --affinity 1 --schedpolicy 1 \
        --timer 1 --nanosleep 1 --clone 1 --metrics-brief --timeout "$limit" || fail "stress-ng ends with $?"
    number stress-ng_s "$limit"
fi
if command -v hackbench >/dev/null; then
    last=$(($(seconds) + limit))
    runs=0
    while [ "$(seconds)" -lt $last ]; do
        hackbench -g 2 -l 50 || fail "hackbench ends with $?"
        runs=$((runs + 1))
    done
    number hackbench_runs $runs
fi
last=$(($(seconds) + limit / 4))
processes=0
while [ "$(seconds)" -lt $last ]; do
    seq 2000 | tail -n 1 | grep -q 2000 || fail "a pipe of processes failed"
    processes=$((processes + 3))
done
number processes $processes
killall yes
enabled && [ "$(enable_seq)" = "$first" ] || { cat /tmp/weir.log; fail "ejected"; }
unload
