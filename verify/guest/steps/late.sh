# SPDX-License-Identifier: GPL-2.0-only
# A command ejects its scheduler and exits, and the scheduler takes long to unload, during which the kernel does not
# show the ejection yet. weir must still report it.
. /steps/lib.sh
printf '[rodata]\nexit_takes_ms = 1500\n' >/tmp/slow.toml
weir run /in/faulty.bpf.o --profile /tmp/slow.toml --format json -- sh -c 'echo S >/proc/sysrq-trigger' >/tmp/out 2>/tmp/err
status=$?
grep -A 4 '"outcome"' /tmp/out
[ $status = 1 ] || fail "status $status; expected 1"
grep -q '"outcome": "ejected"' /tmp/out || fail "the ejection is lost"
grep -q '"kind": 67' /tmp/out || fail "the reason is lost"
disabled || fail "the scheduler is still loaded"
