#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Installs the package that was built on one release in clean systems of others, uses it as a user would, and removes it:
# `packaging/try.sh bookworm trixie` takes that of target/deb/bookworm to both. It takes root, mmdebstrap and a network.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
built=${1:?"built on which release?"}
package=$(ls "$root/target/deb/$built"/weir_*.deb)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

command -v mmdebstrap >/dev/null || { echo "mmdebstrap is missing: apt install mmdebstrap" >&2; exit 1; }
cat >"$folder/try" <<'END'
set -eu
try() {
    echo "+ $*"
    "$@" >/tmp/said 2>&1 || { cat /tmp/said; exit 1; }
}
said() {
    grep -q -e "$1" /tmp/said || { echo "no \"$1\" in:"; cat /tmp/said; exit 1; }
}
# What is in the system, but for what dpkg and apt keep for themselves.
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /var/lib/dpkg -o -path /var/lib/apt \
        -o -path /var/cache/apt -o -path /var/log -o -path /root \) -prune -o -print | sort
}
export DEBIAN_FRONTEND=noninteractive MANPAGER=cat
# Minimal systems leave out manuals by this file; a user's system has them.
rm -f /etc/dpkg/dpkg.cfg.d/docker
apt-get install -y -qq --no-install-recommends man-db bash-completion passwd >/dev/null 2>&1
dpkg-query -W -f '${Package}\n' | sort >/tmp/packages
files >/tmp/before
try apt-get install -y -qq --no-install-recommends /tmp/weir.deb
files >/tmp/installed
useradd -m user
su user -c 'mkdir /tmp/home'
cd /tmp/home
user() {
    echo "+ $*"
    su user -c "cd /tmp/home; $*" >/tmp/said 2>&1 || { cat /tmp/said; exit 1; }
}
user weir --version && said '^weir [0-9.]* ([0-9a-f]*)$'
user weir sim fifo bfs --machine laptop-2c4t --workload video --for 200ms && said 'wakeup mean'
user weir sim /usr/lib/weir/vrq.bpf.o --machine server-64 --workload build --for 200ms && said '^log hash'
hash=$(grep '^log hash' /tmp/said)
user weir sim vrq --machine server-64 --workload build --for 200ms && said "$hash"
user weir sim bfs --machine laptop-2c4t --workload video --for 200ms --report page.html --save a.weirrun
user weir explain a.weirrun --worst 1 && said 'waited'
user 'man weir | cat' && said sched_ext
user 'man weir-sim | cat' && said -- --machine
user "bash -ic 'source /usr/share/bash-completion/bash_completion; _completion_loader weir; complete -p weir'" && said weir
# What bash would offer after `weir exp`.
user "bash -c 'source /usr/share/bash-completion/completions/weir; COMP_WORDS=(weir exp); COMP_CWORD=1; \$(complete -p weir |
    sed \"s/.*-F \\([^ ]*\\).*/\\1/\") weir exp weir; echo \${COMPREPLY[@]}'" && said '^explain$'
# A policy of one's own takes clang.
clang=$(apt-cache pkgnames clang-1 | grep -x -E 'clang-1[6-9]' | sort | tail -1)
try apt-get install -y -qq --no-install-recommends "$clang"
apt-mark -qq auto "$clang"
user cp /usr/share/doc/weir/policies/fifo/fifo.bpf.c mine.bpf.c
user weir sim ./mine.bpf.c --machine laptop-2c4t --workload video --for 200ms
[ ! -e /usr/share/doc/weir/policies/fifo/fifo.bpf.o ]
userdel -r user 2>/dev/null
try apt-get purge -y -qq weir
try apt-get purge -y -qq --autoremove
dpkg-query -W -f '${Package}\n' | sort | comm -13 /tmp/packages - | grep . && { echo "these packages are left"; exit 1; }
caches='^/(var/cache/(man|ldconfig|debconf|fontconfig)|etc/ld.so.cache|etc/[a-z]*-$|var/mail)'
files | comm -13 /tmp/before - | grep -v -E "$caches" && { echo "these files are left"; exit 1; }
echo "$(comm -13 /tmp/before /tmp/installed | wc -l) files and folders came and went"
END
if command -v lintian >/dev/null; then
    lintian --fail-on error "$root"/target/deb/weir_*.dsc "$package"
fi
for release in "$@"; do
    echo "== $release"
    mmdebstrap --quiet --variant=apt --dpkgopt='path-include=/usr/share/man/*' \
        --customize-hook="upload $package /tmp/weir.deb" --customize-hook="upload $folder/try /tmp/try" \
        --customize-hook='chroot "$1" sh /tmp/try >&2' --format=null "$release"
done
echo "installed, tried and removed in: $*"
