#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Checks the programs and libraries that building Weir needs. Where one is missing, root on Debian or Ubuntu gets it
# through apt; for others the script prints what to install. When nothing is missing, it takes a few milliseconds.
#
# The Makefile reads this with `.` before each job, so that a PATH set here holds for the job. With `only=build` it looks
# for no more than a build takes: nothing for tests and lints. `only=demo` is a build that only simulates: no libbpf either.

minor_wanted=89 # Rust 1.89, see rust-version in Cargo.toml
clangs="clang-19 clang-18 clang-17 clang-16 clang-20 clang-21"

rust_is_there() {
    minor=$(rustc --version 2>/dev/null | sed -n 's/^rustc 1\.\([0-9]*\)\..*/\1/p')
    [ "${minor:-0}" -ge "$minor_wanted" ] && cargo --version || return
    [ -n "${only:-}" ] || { cargo fmt --version && cargo clippy --version; }
} >/dev/null 2>&1

# Ubuntu keeps further versions of Rust in folders of their own, Debian's rustup in the home folder.
find_rust() {
    rust_is_there && return
    path=$PATH
    for folder in "$HOME/.cargo/bin" $(ls -d /usr/lib/rust-1.*/bin 2>/dev/null | sort -t. -k2 -rn); do
        PATH=$folder:$path
        rust_is_there && export PATH && return
    done
    PATH=$path
    return 1
}

clang_is_there() {
    for clang in ${BPF_CLANG:-$clangs clang}; do
        command -v "$clang" >/dev/null && return
    done
    return 1
}

# Pages are tested in one. Ubuntu has none as a package: `chromium` there fetches another kind of package.
browser_is_there() {
    for browser in chromium chromium-headless-shell chromium-browser google-chrome; do
        command -v "$browser" >/dev/null && return
    done
    return 1
}

# Minor version of Rust that apt would install as package $1; 0 if none.
apt_minor() {
    minor=$(apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: 1\.\([0-9]*\)\..*/\1/p')
    echo "${minor:-0}"
}

rust_packages() {
    newest=$(apt-cache pkgnames rustc-1. | sed -n 's/^rustc-1\.\([0-9]*\)$/\1/p' | sort -n | tail -1)
    if [ "$(apt_minor rustc)" -ge "$minor_wanted" ]; then
        echo rustc cargo rustfmt rust-clippy
    elif [ "$(apt_minor rustc-web)" -ge "$minor_wanted" ]; then # Debian stable, by way of its security archive
        echo rustc-web cargo-web rustfmt-web rust-web-clippy
    elif [ "${newest:-0}" -ge "$minor_wanted" ]; then # Ubuntu
        echo "rustc-1.$newest cargo-1.$newest rustfmt-1.$newest rust-1.$newest-clippy"
    else # Debian 13, Ubuntu 24.04
        echo rustup
    fi
}

clang_package() {
    for clang in $clangs; do
        [ -n "$(apt-cache pkgnames "$clang" | grep -x "$clang")" ] && echo "$clang" && return
    done
    echo clang
}

# Names of what is missing, one word each; rust and clang stand for packages whose names differ.
missing() {
    command -v cc >/dev/null || echo gcc libc6-dev
    if [ "${only:-}" != demo ]; then # libbpf
        command -v pkg-config >/dev/null || echo pkg-config
        [ -e /usr/include/libelf.h ] || echo libelf-dev
        [ -e /usr/include/zlib.h ] || echo zlib1g-dev
    fi
    clang_is_there || echo clang
    find_rust || echo rust
}

# Programs that only some tests need; these are skipped without them. Jobs that need the virtual machine
# (docs/how-to/virtual-machine.md) set `vm=smoke` or `vm=full`.
missing_for_tests() {
    [ -n "${only:-}" ] && return
    PATH=$PATH:/usr/sbin:/sbin
    command -v mkfs.gfs2 >/dev/null || echo gfs2-utils
    command -v lrzip >/dev/null || echo lrzip
    python3 -c 'import ensurepip' 2>/dev/null || echo python3-venv
    browser_is_there || apt-cache pkgnames chromium-headless-shell 2>/dev/null | grep -x chromium-headless-shell
    [ -n "${vm:-}" ] && [ "$(uname -m)" = x86_64 ] || return 0
    command -v qemu-system-x86_64 >/dev/null || echo qemu-system-x86
    [ -e /usr/bin/busybox ] || [ -e /bin/busybox ] || echo busybox-static
    [ "$vm" = full ] || return 0
    command -v stress-ng >/dev/null || echo stress-ng
    command -v hackbench >/dev/null || echo rt-tests
}

wanted=$(missing)
if [ -n "$wanted" ]; then
    if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
        echo "To build Weir, install these first:" $wanted
        echo "(rust: 1.$minor_wanted or newer with rustfmt and clippy; clang: 16 or newer with the BPF target)"
        echo "On Debian and Ubuntu, \`make deps\` as root does it."
        exit 1
    fi >&2
    apt-get update || exit 1
    packages=
    for name in $wanted; do
        case $name in
        clang) packages="$packages $(clang_package)" ;;
        rust) packages="$packages $(rust_packages)" ;;
        *) packages="$packages $name" ;;
        esac
    done
    # shellcheck disable=SC2086 # words are wanted
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates $packages || exit 1
    case $packages in *rustup*) rustup toolchain install stable --profile default || exit 1 ;; esac
    hash -r
fi
if ! find_rust; then
    echo "Rust 1.$minor_wanted or newer with rustfmt and clippy is still missing; rustc is: $(rustc --version 2>&1)" >&2
    exit 1
fi

install_for_tests() {
    command -v apt-get && [ "$(id -u)" = 0 ] || return
    DEBIAN_FRONTEND=noninteractive
    export DEBIAN_FRONTEND
    apt-get install -y --no-install-recommends "$@" ||
        { apt-get update && apt-get install -y --no-install-recommends "$@"; }
}

helpful=$(missing_for_tests)
# shellcheck disable=SC2086 # words are wanted
if [ -n "$helpful" ] && ! (install_for_tests $helpful) >/dev/null 2>&1; then
    echo "Tests that need this are skipped, as it is missing:" $helpful
fi
