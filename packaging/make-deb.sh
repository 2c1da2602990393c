#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Makes target/deb/weir_VERSION.dsc and the packages: `make deb`. The source package holds the crates that Weir uses as a
# second tarball, so that it builds without a network; nothing of that is in the repository. What is committed is packed.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
out=$root/target/deb
tree=$out/weir-$version

for program in dpkg-buildpackage dh; do
    command -v "$program" >/dev/null || { echo "make deb needs dpkg-dev and debhelper" >&2; exit 1; }
done
rm -rf "$out"
mkdir -p "$out"
git archive --prefix="weir-$version/" HEAD | gzip -9n >"$out/weir_$version.orig.tar.gz"
tar -xzf "$out/weir_$version.orig.tar.gz" -C "$out"
(cd "$tree" && cargo vendor --locked -q vendor >/dev/null)
tar -C "$tree" --sort=name --mtime=@0 --owner=0 --group=0 -cf - vendor | gzip -6n >"$out/weir_$version.orig-vendor.tar.gz"
cp -r "$root/packaging/debian" "$tree/debian"
cd "$tree"
# -d: a Rust from elsewhere than a package will do, tools/deps.sh has looked for one.
dpkg-buildpackage -us -uc -d
cd "$out"
ls -1 ./*.dsc ./*.deb
