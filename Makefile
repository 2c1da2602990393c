# SPDX-License-Identifier: GPL-2.0-only
.PHONY: help demo test test-all test-asan test-vm bench deps

help:
	@echo "make demo      a film beside compilers, on two simulated machines, under the kernel's scheduler, fifo and bfs"
	@echo "make test      all checks that take minutes: format, lints, tests"
	@echo "make test-all  the same, and everything again optimized, with the slow tests"
	@echo "make test-asan reads and writes of bitfit outside of its maps, by AddressSanitizer; needs rustup's Rust"
	@echo "make test-vm   policies and the kernel model against a real kernel, in a virtual machine; an hour"
	@echo "make bench     how fast the simulator is"
	@echo "make deps      install what building takes (Debian, Ubuntu; as root)"

demo: deps
	@. ./tools/deps.sh; cargo run --release --locked -q -p weir -- \
		sim kernel fifo bfs --workload video --machine laptop-2c4t --machine desktop-4c --report target/demo.html

test: deps
	@vm=smoke; . ./tools/deps.sh; set -ex; \
	cargo fmt --all --check; \
	cargo clippy --workspace --all-targets --locked -q -- -D warnings; \
	cargo test --workspace --locked -q; \
	cargo xtask vm smoke

test-all: test
	@. ./tools/deps.sh; set -ex; \
	cargo test --workspace --release --locked -q -- --include-ignored

# The sanitizer is not stable, but its library comes with the stable compiler.
# What leaks is the stacks of loom, with which the tests try all orders of threads.
test-asan: deps
	@. ./tools/deps.sh; set -ex; \
	ASAN_OPTIONS=detect_leaks=0 RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address cargo test -p bitfit --locked -q \
		--target x86_64-unknown-linux-gnu --target-dir target/asan --no-default-features --features std \
		--lib --test oracle --test operations --test guard_pages --test summary --test atomic --test history --test gfs2

test-vm: deps
	@vm=full; . ./tools/deps.sh; set -ex; \
	cargo xtask vm full; \
	cargo xtask vm conformance; \
	cargo xtask vm conformance --shares

bench: deps
	@. ./tools/deps.sh; cargo bench --workspace --locked -q

deps:
	@. ./tools/deps.sh
