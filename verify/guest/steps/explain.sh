# SPDX-License-Identifier: GPL-2.0-only
# Real runs are saved, explained and rendered as HTML reports: one under a scheduler and one that ends with an
# ejection. Facts that the kernel does not expose are reported as not seen.
. /steps/lib.sh
work='for i in 1 2 3; do (sleep 0.1; md5sum /bin/busybox) & done; wait'
weir run "$1" --save /tmp/a.weirrun --report /tmp/a.html -- sh -c "$work" >/tmp/out 2>&1 ||
    { cat /tmp/out; fail "the run failed"; }
weir explain /tmp/a.weirrun >/tmp/out 2>&1 || { cat /tmp/out; fail "weir explain fails"; }
grep -q 'The longest chain of causes took' /tmp/out || { cat /tmp/out; fail "there is no chain"; }
grep -q 'unknown: only a simulated run' /tmp/out || { cat /tmp/out; fail "unseen facts are not reported"; }
weir report /tmp/a.weirrun -o /tmp/b.html 2>/dev/null || fail "weir report fails"
cmp /tmp/a.html /tmp/b.html || fail "--report differs from --save with weir report"
printf '[ops]\ntimeout_ms = 1000\n[rodata]\nfault = 1\n' >/tmp/faulty.toml
weir run /in/faulty.bpf.o --profile /tmp/faulty.toml --save /tmp/e.weirrun -- sleep 1 >/tmp/out 2>&1
status=$?
[ $status = 1 ] || { cat /tmp/out; fail "status $status of an ejected run; expected 1"; }
weir explain /tmp/e.weirrun >/tmp/out 2>&1 || { cat /tmp/out; fail "the ejection is not explained"; }
head -n 12 /tmp/out
grep -q '^Ejected at the latest at .*: runnable task stall' /tmp/out || fail "the explanation does not name the stall"
weir explain /tmp/e.weirrun --ejection >/tmp/out 2>&1 || fail "--ejection fails"
grep -q "kernel dump" /tmp/out || fail "there is no dump"
weir report /tmp/e.weirrun -o /tmp/e.html 2>/dev/null
[ $? = 1 ] || fail "weir report of an ejected run does not exit with status 1"
grep -q 'Why the scheduler was ejected' /tmp/e.html || fail "the page does not say why"
