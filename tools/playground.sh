#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Builds the playground: the simulator as WebAssembly, packed into target/playground/index.html. With the argument
# `tools` it gets a compiler that can do that, on Debian without root, and builds nothing.
#
# Either the Rust in the PATH has the target wasm32-unknown-unknown, or some Rust has the source of its standard library,
# which is then compiled, too: the one in the PATH, or Debian's rustc-web in the cache directory below.
set -e
cd "$(dirname "$0")/.."

target=wasm32-unknown-unknown
built=${CARGO_TARGET_DIR:-target}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/weir/rust-web

# Packages whose files the compiler needs, and nothing that a Debian system has anyway.
get_tools() {
    if ! command -v apt-get >/dev/null; then
        echo "There is no apt-get here. With rustup: rustup target add $target" >&2
        exit 1
    fi
    libraries='^(libstd-rust-web|libllvm|libgit2|libhttp-parser|libmbed)'
    wanted="rustc-web cargo-web rust-web-src lld-19"
    # Libraries of programs, and twice those of libraries.
    for _ in 1 2 3; do
        # shellcheck disable=SC2086 # words are wanted
        more=$(apt-cache depends $wanted | sed -n 's/^ *Depends: //p' | grep -E "$libraries" || true)
        wanted=$(printf '%s\n' $wanted $more | sort -u)
    done
    mkdir -p "$cache/packages"
    # shellcheck disable=SC2086 # words are wanted
    (cd "$cache/packages" && apt-get download $wanted)
    for package in "$cache"/packages/*.deb; do
        dpkg -x "$package" "$cache"
        rm "$package"
    done
    "$cache/usr/bin/wasm-ld-19" --version
}

# A Rust with the source of its library: sets `rustc`, or fails.
find_source() {
    for rustc in rustc "$cache/usr/bin/rustc"; do
        command -v "$rustc" >/dev/null || continue
        libraries=$cache/usr/lib/$(uname -m)-linux-gnu
        sysroot=$(LD_LIBRARY_PATH=$libraries "$rustc" --print sysroot 2>/dev/null) || continue
        [ -e "$sysroot/lib/rustlib/src/rust/library/std/Cargo.toml" ] && return
    done
    return 1
}

missing() {
    echo "To build the playground, this is missing: $1" >&2
    echo "The README of crates/playground-page says what is needed." >&2
    exit 1
}

[ "$1" != tools ] || { get_tools; exit; }

# zstd is C.
for clang in clang-19 clang-18 clang-20 clang-21 clang-17 clang-16 clang ""; do
    [ -n "$clang" ] || missing "clang (make deps)"
    command -v "$clang" >/dev/null && "$clang" --print-targets | grep -q wasm32 && break
done
for archiver in llvm-ar llvm-ar-19 llvm-ar-18 llvm-ar-17 llvm-ar-16 llvm-ar-15 llvm-ar-14 ""; do
    [ -n "$archiver" ] || missing "llvm-ar (Debian and Ubuntu: apt-get install llvm)"
    command -v "$archiver" >/dev/null && break
done
export CC_wasm32_unknown_unknown="$clang" AR_wasm32_unknown_unknown="$archiver"
unset RUSTC_WORKSPACE_WRAPPER RUSTFLAGS

how="--profile playground --locked --target $target --target-dir $built/wasm"
what="-p playground --lib --crate-type cdylib"
if ls "$(rustc --print target-libdir --target $target 2>/dev/null)"/libstd-*.rlib >/dev/null 2>&1; then
    # shellcheck disable=SC2086 # words are wanted
    cargo rustc $how $what
elif find_source; then
    for linker in wasm-ld-19 wasm-ld "$cache/usr/bin/wasm-ld-19" ""; do
        [ -n "$linker" ] || missing "wasm-ld (Debian: apt-get install lld-19)"
        command -v "$linker" >/dev/null && break
    done
    (
        # The compiler's own libraries are for the compiler only.
        if [ "$rustc" != rustc ]; then
            export PATH="$cache/usr/bin:$PATH" RUSTC="$rustc" LD_LIBRARY_PATH="$libraries"
        fi
        export RUSTC_BOOTSTRAP=1 CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER="$linker"
        # shellcheck disable=SC2086 # words are wanted
        cargo rustc -Zbuild-std=std,panic_abort $how $what
    )
else
    missing "a Rust that compiles for $target.
  With rustup:    rustup target add $target
  On Debian 12:   make playground-tools    (150 MB of packages, unpacked into $cache, no root)"
fi

mkdir -p "$built/playground"
cargo run -q --locked -p playground-page -- "$built/wasm/$target/playground/playground.wasm" "$built/playground"
