# SPDX-License-Identifier: MIT OR Apache-2.0
# Mounts ixfs over 9P with the kernel's own client, in a virtual machine; ../../README.md says how to start it.
set -e
cd /in
for module in netfs fscache 9pnet 9pnet_fd 9p; do
    [ ! -e $module.ko ] || insmod $module.ko
done
mkdir -p /mnt /store
mount -t tmpfs none /store
./ixfs mkfs --size 32M /store/s.ixfs
./ixfs serve /store/s.ixfs --unix /store/sock --tcp 127.0.0.1:5640
ip link set lo up 2>/dev/null || ifconfig lo up

# Every file of a tree, with its mode and checksum.
listing() {
    (cd $1 && find . -type f | sort | while read file; do stat -c '%n %a' $file; sha256sum < $file; done)
}

round() {
    echo "== $*"
    mount -t 9p -o "$1,version=9p2000.L,$2" $3 /mnt
    rm -rf /mnt/*
    mkdir -p /mnt/a/b
    head -c 1000000 /dev/urandom > /mnt/a/data
    cp /mnt/a/data /mnt/a/b/copy
    cmp /mnt/a/data /mnt/a/b/copy
    ln /mnt/a/data /mnt/hard
    ln -s a/data /mnt/soft
    cmp /mnt/soft /mnt/hard
    mv /mnt/a/b/copy /mnt/a/b/moved
    chmod 640 /mnt/a/b/moved
    truncate -s 5000 /mnt/a/b/moved
    [ "$(stat -c '%s %a' /mnt/a/b/moved)" = "5000 640" ]
    i=0
    while [ $i -lt 60 ]; do echo $i > /mnt/a/b/f$i; i=$((i + 1)); done
    [ "$(ls /mnt/a/b | wc -l)" = 61 ]
    rm /mnt/hard
    sh -c 'echo open > /mnt/gone; exec 3< /mnt/gone; rm /mnt/gone; read line <&3; [ "$line" = open ]'
    # Made durable by fsync: a copy of the store made now, without the server's help, must have it.
    dd if=/dev/urandom of=/mnt/synced bs=4096 count=20 conv=fsync 2> /dev/null
    listing /mnt > /store/before
    cp /store/s.ixfs /store/copy.ixfs
    umount /mnt
    mount -t 9p -o "$1,version=9p2000.L,$2" $3 /mnt
    listing /mnt > /store/after
    cmp /store/before /store/after
    # Not with cache=mmap: there the client of 6.12 itself loses bytes behind the old end, with diod's server as well.
    [ ! -e fsx ] || [ $2 != cache=none ] || ./fsx /mnt "${IXFS_FSX:-2000}"
    umount /mnt
    ./ixfs check /store/copy.ixfs
    ./ixfs dump /store/copy.ixfs | grep synced
}

for cache in none mmap; do
    round trans=unix cache=$cache /store/sock
    round trans=tcp,port=5640 cache=$cache 127.0.0.1
done
echo "9P of kernel $(uname -r): all rounds passed"
