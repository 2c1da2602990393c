#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Installs the package of target/deb into clean systems and simulates there: `make test-deb`, or with the names of Debian's
# releases. It takes root, mmdebstrap and a network.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
package=$(ls "$root"/target/deb/weir_*.deb)
command -v mmdebstrap >/dev/null || { echo "make test-deb needs mmdebstrap" >&2; exit 1; }

if command -v lintian >/dev/null; then
    lintian --fail-on error "$package" "$root"/target/deb/weir_*.dsc
fi
for release in "$@"; do
    echo "== $release"
    folder=$(mktemp -d)
    # What a hook runs has the new system as $1: the package and what it needs are installed, and it is tried.
    mmdebstrap --quiet --variant=apt --customize-hook="copy-in $package /tmp" \
        --customize-hook='chroot "$1" sh -ec "apt-get install -y -qq --no-install-recommends /tmp/weir_*.deb >/dev/null
            cd /tmp
            weir --version
            weir sim fifo bfs --machine laptop-2c4t --workload video --for 200ms | tail -3
            weir sim /usr/lib/weir/vrq.bpf.o --machine server-64 --workload build --for 200ms | grep completed
            ls /usr/share/man/man1/weir-sim.1.gz /usr/include/weir/scx.bpf.h /usr/share/doc/weir/copyright
            dpkg --purge weir >/dev/null && ! command -v weir"' \
        "$release" "$folder/system.tar"
    rm -rf "$folder"
done
echo "installed, tried and removed in: $*"
