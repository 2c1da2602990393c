# SPDX-License-Identifier: GPL-2.0-only
# Runs in the virtual machine with 2 CPUs below one cache: when does a busy CPU reschedule that another one told to, lazily
# (PREEMPT_LAZY)? Traces calls-2 and crowd-2 under the kernel's own classes, and says of each request what interrupt came
# before the next switch of that CPU. Fails if more than one request in fifty did not take effect at the first interrupt.
trace=/sys/kernel/tracing
[ -e $trace/trace ] || mount -t tracefs tracefs $trace
echo 0 >/proc/sys/kernel/sched_autogroup_enabled
echo "preemption: $(cat /sys/kernel/debug/sched/preempt)"
echo "below the cache of CPU 0: $(cat /sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list)"
sleep 2
# On x86, flag 4 is TIF_NEED_RESCHED and flag 5 TIF_NEED_RESCHED_LAZY (asm/thread_info.h).
echo 't:lazy/need sched_set_need_resched_tp cpu=cpu tif=tif' >>$trace/dynamic_events
echo 20000 >$trace/buffer_size_kb
status=0
for workload in calls-2 crowd-2; do
    echo >$trace/trace
    for event in sched/sched_switch irq_vectors lazy/need; do echo 1 >$trace/events/$event/enable; done
    weir run --workload $workload.json --for 2s --format json >/out/$workload.json || [ $? -eq 1 ] || exit
    for event in sched/sched_switch irq_vectors lazy/need; do echo 0 >$trace/events/$event/enable; done
    cp $trace/trace /out/$workload.trace
    awk -v workload=$workload '
        function cpu(text) { match(text, /\[[0-9]+\]/); return substr(text, RSTART + 1, RLENGTH - 2) + 0 }
        / need: / && cpu($0) == 0 && /cpu=(0x)?1 tif=(0x)?5/ && !waits { waits = 1; interrupts = 0; kind = "none" }
        waits && cpu($0) == 1 && /_entry: / { if (!interrupts++) { kind = $5; sub(/_entry:/, "", kind) } }
        waits && cpu($0) == 1 && / sched_switch: / { waits = 0; all++; first += interrupts == 1; kinds[kind]++ }
        END {
            printf "%s: %d requests, %d took effect at the first interrupt;", workload, all, first
            for (kind in kinds) printf " %s %d", kind, kinds[kind]
            printf "\n"
            exit all < 100 || (all - first) * 50 > all
        }' /out/$workload.trace || status=1
done
exit $status
