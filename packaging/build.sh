#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Builds the source package of target/deb in a clean Debian: `packaging/build.sh RELEASE`, such as bookworm. The packages
# are in target/deb/RELEASE then. It takes root, mmdebstrap, a network, 6 GB and, on two CPUs, half an hour.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
release=${1:?"which release: bookworm, trixie?"}
out=$root/target/deb/$release
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

command -v mmdebstrap >/dev/null || { echo "mmdebstrap is missing: apt install mmdebstrap" >&2; exit 1; }
cat >"$folder/build" <<'END'
set -eu
cd /build
apt-get build-dep -y -qq --no-install-recommends ./weir_*.dsc >/dev/null
dpkg-source -x weir_*.dsc tree >/dev/null
cd tree
useradd -m builder
chown -R builder: /build
# As a user without rights, and without a network if the kernel can take that away.
offline=; unshare -n true 2>/dev/null && offline="unshare -n"
$offline setpriv --reuid builder --regid builder --init-groups env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/nonexistent \
    LANG=C.UTF-8 DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-}" dpkg-buildpackage -us -uc -b
END
rm -rf "$out"
mkdir -p "$out"
mmdebstrap --quiet --variant=buildd --customize-hook='mkdir "$1/build"' \
    --customize-hook="copy-in $(echo "$root"/target/deb/weir_*) /build" \
    --customize-hook="copy-in $folder/build /tmp" --customize-hook='chroot "$1" sh /tmp/build >&2' \
    --customize-hook="sh -c 'cp \"\$1\"/build/*.deb \"\$1\"/build/*.changes \"\$1\"/build/*.buildinfo $out' -- \"\$1\"" \
    --format=null "$release"
ls -1 "$out"/*.deb
