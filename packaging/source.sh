#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Makes the Debian source package target/deb/weir_VERSION.dsc of what is committed. The crates that Weir uses are a second
# tarball in it, so that it builds without a network; nothing of that is in the repository.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
packed=$(sed -n '1s/.*(\(.*\)-[^-]*).*/\1/p' packaging/debian/changelog)
out=$root/target/deb
tree=$out/weir-$version

[ "$version" = "$packed" ] || { echo "packaging/debian/changelog is of $packed, Cargo.toml of $version" >&2; exit 1; }
command -v dpkg-source >/dev/null || { echo "dpkg-source is missing: apt install dpkg-dev" >&2; exit 1; }
rm -rf "$out"
mkdir -p "$out"
git archive --prefix="weir-$version/" HEAD | gzip -9n >"$out/weir_$version.orig.tar.gz"
tar -xzf "$out/weir_$version.orig.tar.gz" -C "$out"
cd "$tree"
cargo vendor --locked -q vendor >/dev/null
# Import libraries of Windows are made by a program, and have no source here. No build for Linux reads them.
find vendor -name '*.a' -delete
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - vendor | gzip -6n >"$out/weir_$version.orig-vendor.tar.gz"
cp -r packaging/debian debian
# The maintainer of a package is who packs it: as the tools of Debian are told, or else git.
maintainer="${DEBFULLNAME:-$(git -C "$root" log -1 --format=%an)} <${DEBEMAIL:-$(git -C "$root" log -1 --format=%ae)}>"
sed -i "s/MAINTAINER/$maintainer/" debian/control debian/changelog

# A paragraph for each licence in the words of the crates, then one for each that these words name.
for manifest in vendor/*/Cargo.toml; do
    license=$(sed -n 's/^license = "\(.*\)"/\1/p' "$manifest" |
        sed 's|[ ]*/[ ]*| or |g; s/ OR / or /g; s/ AND / and /g; s/ WITH LLVM-exception/ with LLVM exception/g')
    [ -n "$license" ] || { echo "$manifest names no license" >&2; exit 1; }
    printf '%s\t%s\n' "$license" "${manifest%Cargo.toml}*"
done | sort | awk -F'\t' '
    $1 != license { if (license) print_paragraph(); license = $1; files = "" }
    { files = files "\n " $2 }
    END { print_paragraph() }
    function print_paragraph() {
        printf "\nFiles:%s\nCopyright: those whom the Cargo.toml and the files LICENSE and COPYING of each folder name\n", files
        printf "License: %s\n", license
    }' >"$out/licenses"
cat "$out/licenses" >>debian/copyright
sed -n 's/^License: //p' "$out/licenses" | tr -d '()' | sed 's/ or /\n/g; s/ and /\n/g' | sort -u | while read -r license; do
    printf '\nLicense: %s\n' "$license"
    case $license in
    Apache-2.0*) printf ' On Debian systems, its text is in /usr/share/common-licenses/Apache-2.0.\n' ;;
    LGPL-2.1*) printf ' On Debian systems, its text is in /usr/share/common-licenses/LGPL-2.1.\n' ;;
    esac
    printf ' The folders of the crates have its text. That of the crates that are in the\n'
    printf ' program is in /usr/share/doc/weir/licenses-of-crates.txt.gz, too.\n'
done >>debian/copyright
cd "$out"
dpkg-source -b "weir-$version"
rm -rf "$tree" "$out/licenses"
ls -1 ./*.dsc
