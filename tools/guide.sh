#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Makes a profile of the simulator's own runs, and prints where it is. A compiler that has it puts what runs often side by
# side and the rest out of the way: between two ticks a run comes through more code than a core's first cache holds, so that
# much of its time goes into fetching instructions. `GUIDED=yes` of the Makefile builds by it. A profile that is newer
# than all sources is left as it is.
#
# The runs are of what people play: none is a case of the benchmarks, which are to show what a user gets.
set -eu
cd "$(dirname "$0")/.."

folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/guide
profile=$folder/weir.profdata
sources="Cargo.toml Cargo.lock crates weir policies workloads machines profiles tools/guide.sh"
# shellcheck disable=SC2086 # words are wanted
if [ -e "$profile" ] && [ -z "$(find $sources -type f -newer "$profile" -print -quit)" ]; then
    echo "$profile"
    exit
fi

# The tool that merges profiles must be of the compiler's own LLVM.
version=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
host=$(rustc -vV | sed -n 's/^host: //p')
find_merger() {
    for merger in "$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata" "llvm-profdata-$version"; do
        command -v "$merger" && return
    done
    return 1
}
find_merger >/dev/null || ! command -v rustup >/dev/null || rustup component add llvm-tools >&2
merger=$(find_merger) || {
    echo "llvm-profdata $version is missing: install llvm-$version, or rustup's component llvm-tools" >&2
    exit 1
}

echo "building weir so that it counts what it does, in $folder" >&2
RUSTFLAGS="${RUSTFLAGS:-} -Cprofile-generate=$folder/built" \
    cargo build --release --locked -q "$@" --target-dir "$folder/release"

rm -rf "$folder/runs"
export LLVM_PROFILE_FILE="$folder/runs/%m.profraw"
play() {
    "$folder/release/release/weir" sim "$@" >/dev/null
}
play kernel fifo bfs muqss cfs vrq nix pushback -m laptop-2c4t -w video --for 1s --seeds 2
play kernel fifo bfs muqss cfs vrq nix pushback -m desktop-4c -w preempt-mix --for 1s --seeds 2
play kernel fifo bfs muqss cfs vrq nix pushback -m laptop-2c4t -w pingpong --for 200ms --seeds 2
play kernel fifo bfs -m server-64 -w wide --for 200ms --seeds 2
play kernel fifo bfs muqss vrq nix -m server-64 -w latency --for 200ms --seeds 2
play fifo bfs -m nix-32 -w build,jobs=32 --for 500ms --seeds 2
play fifo -m server-512 -w wide --for 100ms --seeds 2
play lottery stride entitlement gang -m laptop-2c4t -w desktop --for 500ms --seeds 2
play fifo bfs -m 'core:4 pu:1' -w film-25 --for 1s --seeds 2
"$merger" merge -o "$profile" "$folder/runs"
rm -rf "$folder/built" "$folder/release" "$folder/runs"
echo "$profile"
