#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0-only
# First process of the virtual machine: mounts the usual file systems, runs /script in /in, and sends the results to
# the host. Port 1 takes the results as one tar file, port 2 the script's output while it runs.
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /root /out /result
/bin/busybox --install -s /bin
export PATH=/in:/bin HOME=/root TMPDIR=/tmp TERM=dumb
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs none /dev/shm
mount -t tmpfs none /tmp
mount -t devpts none /dev/pts
for pair in debugfs:/sys/kernel/debug tracefs:/sys/kernel/tracing bpf:/sys/fs/bpf cgroup2:/sys/fs/cgroup; do
    mount -t "${pair%%:*}" none "${pair#*:}" || echo "init: no ${pair%%:*}"
done
ln -s /proc/self/fd /dev/fd
hostname vm
ip link set lo up
uname -r >/result/kernel
cut -d' ' -f1 /proc/uptime >/result/booted_s

cd /in || exit 1
sh /script </dev/null >/dev/vport0p2 2>&1
echo $? >/result/status

cut -d' ' -f1 /proc/uptime >/result/ended_s
dmesg >/result/dmesg
mv /out /result/out
tar -C /result -cf /dev/vport0p1 .
# A machine of QEMU 7.2 that has been suspended cannot be powered off. QEMU exits on a reset as well.
[ "$(cat /sys/power/suspend_stats/success 2>/dev/null || echo 0)" = 0 ] || reboot -f
poweroff -f
