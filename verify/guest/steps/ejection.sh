# SPDX-License-Identifier: GPL-2.0-only
# The kernel's watchdog ejects a scheduler that never queues a task; weir prints the reason and the dump, and fails.
. /steps/lib.sh
printf '[ops]\ntimeout_ms = 1000\n[rodata]\nfault = 1\n' >/tmp/faulty.toml
weir run /in/faulty.bpf.o --profile /tmp/faulty.toml --for 40s >/tmp/out 2>&1
status=$?
grep -v '^ *[A-Z][a-z]* *:' /tmp/out | head -n 30
[ $status = 1 ] || fail "status $status; expected 1"
grep -q 'EJECTED .*: runnable task stall (kind 1026, ' /tmp/out || fail "weir does not name the stall"
# The watchdog detects a waiting task or, as it runs in a task itself, the tick detects that the watchdog waits.
grep -Eq 'failed to (run|check in) for [1-9]' /tmp/out || fail "weir does not print the kernel's message"
grep -q 'triggered exit kind 1026' "$(sed -n 's/.*debug dump is in //p' /tmp/out)" || fail "there is no dump"
disabled || fail "the scheduler is still loaded"
