#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Installs into an empty folder, moves the tree's part of it out of sight, and tries what was installed: `make test-install`.
# What a user's own policy takes must be there, nothing may tell where it was built, and nothing may be left afterwards.
set -eu

tree=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

try() {
    echo "+ $*"
    "$@"
}

make -C "$tree" install DESTDIR="$folder/first" PREFIX=/usr
# Elsewhere than it was installed, and with a home and a current folder in which there is nothing.
mkdir "$folder/empty" "$folder/home"
mv "$folder/first" "$folder/moved"
usr=$folder/moved/usr
cd "$folder/empty"
export HOME="$folder/home" PATH="$usr/bin:$PATH"

[ "$(command -v weir)" = "$usr/bin/weir" ]
try weir --version
try weir sim fifo bfs --machine laptop-2c4t --workload video --for 200ms >report.txt
grep -q 'wakeup mean' report.txt
try weir sim "$usr/lib/weir/bfs.bpf.o" --machine laptop-2c4t --workload video --for 200ms >object.txt
try weir sim bfs --machine laptop-2c4t --workload video --for 200ms >policy.txt
[ "$(grep '^log hash' object.txt)" = "$(grep '^log hash' policy.txt)" ]
# A policy of one's own: compiled on the spot, and by hand with the headers that were installed.
cp "$usr/share/doc/weir/policies/fifo/fifo.bpf.c" mine.bpf.c
try weir sim ./mine.bpf.c --machine laptop-2c4t --workload video --for 200ms >/dev/null
for clang in ${BPF_CLANG:-clang-19 clang-18 clang-17 clang-16 clang-20 clang-21 clang}; do
    command -v "$clang" >/dev/null && break
done
try "$clang" -O2 -g -target bpf -mcpu=v3 -I "$usr/include" -c mine.bpf.c -o mine.bpf.o
try weir inspect ./mine.bpf.o >/dev/null

for file in share/man/man1/weir.1 share/man/man1/weir-sim.1 share/bash-completion/completions/weir \
    share/zsh/site-functions/_weir share/fish/vendor_completions.d/weir.fish include/weir/scx.bpf.h \
    share/doc/weir/README.md share/doc/weir/docs/tutorial/first-scheduler.md share/doc/weir/docs/schema/run.json; do
    [ -s "$usr/$file" ] || { echo "$file was not installed" >&2; exit 1; }
done
if command -v man >/dev/null; then
    try man --warnings -l "$usr/share/man/man1/weir-sim.1" >man.txt 2>man.err
    grep -q 'weir' man.txt && [ ! -s man.err ] || { cat man.err >&2; exit 1; }
fi
if file "$usr/bin/weir" 2>/dev/null | grep -q 'not stripped'; then
    echo "weir is not stripped" >&2
    exit 1
fi
home=$(getent passwd "$(id -u)" | cut -d: -f6)
for place in "$tree" "${CARGO_HOME:-$home/.cargo}" "$(rustc --print sysroot 2>/dev/null || echo "$tree")"; do
    if grep -r -a -l -F -e "$place" "$usr"; then
        echo "these name $place" >&2
        exit 1
    fi
done

mv "$folder/moved" "$folder/first"
make -C "$tree" uninstall DESTDIR="$folder/first" PREFIX=/usr
left=$(find "$folder/first" ! -type d)
[ -z "$left" ] || { echo "left behind: $left" >&2; exit 1; }
echo "installed, tried, and removed"
