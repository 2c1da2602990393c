#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# The three workloads of NIX's blog, in small, with ixfs as the file server. Usage: nix.sh 1|2|3, as root, in an empty
# directory of a tmpfs; `ixfs` must be in the path. The server is a child, so that a recording contains it.
set -e
sources=$(dirname "$(realpath "$0")")
mkdir tree mount
for unit in 1 2 3 4 5 6 7 8; do cp "$sources/unit.c" tree/unit-$unit.c; done
cp "$sources/nix.mk" tree/Makefile

if [ "$1" = 3 ]; then
    make -s -j2 -C tree
    exit
fi
ixfs mount --foreground --size 64M store mount &
while ! mountpoint -q mount; do sleep 0.05; done
cp -r tree mount/tree
if [ "$1" = 1 ]; then
    make -s -j2 -C mount/tree
else
    for copy in 1 2 3 4 5 6 7 8; do cp -r mount/tree mount/copy-$copy; done
fi
umount mount
wait
