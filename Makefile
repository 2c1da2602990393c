# SPDX-License-Identifier: GPL-2.0-only
.PHONY: help demo test test-all test-asan test-vm bench deps install

help:
	@echo "make demo      a film beside compilers, on two simulated machines, under the kernel's scheduler, fifo and bfs"
	@echo "make test      all checks that take minutes: format, lints, tests"
	@echo "make test-all  the same, and everything again optimized, with the slow tests"
	@echo "make test-asan reads and writes of bitfit outside of its maps, by AddressSanitizer; needs rustup's Rust"
	@echo "make test-vm   policies and the kernel model against a real kernel, in a virtual machine; an hour"
	@echo "make bench     how fast the simulator is"
	@echo "make install   the program, its manual, completions and headers below DESTDIR/PREFIX (/usr/local)"
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

PREFIX ?= /usr/local
DESTDIR ?=
PROFILE ?= release
BUILT = $${CARGO_TARGET_DIR:-target}/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))
SHARE = $(DESTDIR)$(PREFIX)/share

# Neither the program nor what it carries shall tell where it was built: a package is the same bytes on every machine.
install: deps
	@. ./tools/deps.sh; set -e; \
	registry=$${CARGO_HOME:-$$HOME/.cargo}; built=$$(realpath -m "$(BUILT)"); \
	for pair in "$$registry=/usr/src/cargo" "$$built=/usr/src/weir/built" "$$PWD=/usr/src/weir"; do \
		RUSTFLAGS="$$RUSTFLAGS --remap-path-prefix=$$pair"; CFLAGS="$$CFLAGS -ffile-prefix-map=$$pair"; \
	done; \
	export RUSTFLAGS CFLAGS; set -x; \
	cargo build --profile $(PROFILE) --locked -q -p weir; \
	install -D -m 755 -s "$$built/weir" "$(DESTDIR)$(PREFIX)/bin/weir"; \
	weir="$(DESTDIR)$(PREFIX)/bin/weir"; \
	if grep -q -a -F -e "$$PWD" -e "$$registry" "$$weir"; then \
		echo "$$weir names the folder of its build" >&2; exit 1; \
	fi; \
	"$$weir" generate man "$(SHARE)/man/man1"; \
	"$$weir" generate completions target/completions; \
	install -D -m 644 target/completions/weir "$(SHARE)/bash-completion/completions/weir"; \
	install -D -m 644 target/completions/_weir "$(SHARE)/zsh/site-functions/_weir"; \
	install -D -m 644 target/completions/weir.fish "$(SHARE)/fish/vendor_completions.d/weir.fish"; \
	"$$weir" generate headers "$(DESTDIR)$(PREFIX)/include"; \
	install -D -m 644 LICENSE "$(SHARE)/doc/weir/LICENSE"; \
	install -m 644 README.md CHANGELOG.md "$(SHARE)/doc/weir"

deps:
	@. ./tools/deps.sh
