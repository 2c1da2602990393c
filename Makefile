# SPDX-License-Identifier: GPL-2.0-only
.PHONY: help demo test test-all test-asan test-vm test-python wheel bench manual deny deps install uninstall test-install
.PHONY: claims deb test-deb pictures playground playground-tools test-playground slides

help:
	@echo "make demo      compare three schedulers on two simulated machines: a video player beside compilers"
	@echo "make test      all quick checks: format, lints, tests, a boot of the virtual machine"
	@echo "make test-all  the same, and all tests again optimized, the slow ones included"
	@echo "make test-asan reads and writes of bitfit outside of its maps, by AddressSanitizer; needs rustup's Rust"
	@echo "make test-vm   policies and the kernel model against a real kernel, in a virtual machine; an hour"
	@echo "make test-python  the Python package on a Ray cluster, too, and its notebooks in Jupyter (network)"
	@echo "make wheel     a wheel with the program and the Python package, in target/wheels (network)"
	@echo "make bench     how fast the simulator is; with GUIDED=yes when it is built by a profile of its own runs"
	@echo "make claims    judge what the authors of schedulers claimed, and write docs/claims.md; 20 minutes"
	@echo "make deny      licences, advisories and duplicates of the dependencies (network)"
	@echo "make manual    the pages of docs/ as a book for a browser, in target/manual"
	@echo "make playground  the simulator as one page for a browser, in target/playground"
	@echo "make slides    the course as slides for a browser, in target/playground"
	@echo "make test-playground  that page in a browser: its hashes must be those of the command line"
	@echo "make install   the program, man pages, completions, headers, policies below DESTDIR/PREFIX (/usr/local);"
	@echo "               with GUIDED=yes built by a profile of its own runs, which is faster"
	@echo "make uninstall takes that away again"
	@echo "make deb       a Debian package, built on a clean Debian 12, and its source package, in target/deb; as root"
	@echo "make test-deb  tries that package in clean systems of Debian 12 and 13; as root"
	@echo "make test-install  tries that where nothing of the tree is to be seen"
	@echo "make deps      install what building takes (Debian, Ubuntu; as root)"

# Times of both commands are printed: they are meant to stay short (2 and 15 minutes on two idle cores).
begin = begin=$$(date +%s)
finish = echo "make $@: $$(( ($$(date +%s) - begin) / 60 )) min $$(( ($$(date +%s) - begin) % 60 )) s"

# A build that only simulates needs neither libbpf nor libelf. `cargo` shows how far it is.
demo:
	@only=demo; . ./tools/deps.sh; set -e; $(begin); \
	cargo build --profile demo --locked -p weir --no-default-features; \
	$${CARGO_TARGET_DIR:-target}/demo/weir \
		sim kernel fifo bfs --workload video --machine laptop-2c4t --machine desktop-4c --report target/demo.html; \
	$(finish)

# Built by the tests. `cargo xtask` would compile it and its dependencies again, with only the features that they need.
xtask = $${CARGO_TARGET_DIR:-target}/debug/xtask

# Lints run in the compilation that the tests need: Clippy's driver compiles the tree's own crates, with the flags that
# `cargo clippy -- FLAGS` would pass to it.
lint = export RUSTC_WORKSPACE_WRAPPER=clippy-driver \
	CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__-D__CLIPPY_HACKERY__clippy::undocumented_unsafe_blocks

# Python's modules are installed while the tests are built. Without a network, the tests that need them are skipped.
python_begins = python=$$(mktemp); { ./tools/python.sh && echo 0 || echo $$?; } >$$python & installer=$$!
python_ends = wait $$installer; status=$$(tail -1 $$python); case $$status in \
	0) WEIR_PYTHON=$$(head -1 $$python); export WEIR_PYTHON ;; \
	3) WEIR_PYTHON_LACK="no network to install modules of Python"; export WEIR_PYTHON_LACK ;; \
	*) WEIR_PYTHON_LACK="modules of Python cannot be installed"; export WEIR_PYTHON_LACK ;; esac; rm $$python

test: deps
	@vm=smoke; . ./tools/deps.sh; set -ex; $(begin); \
	cargo fmt --all --check; \
	$(lint); $(python_begins); \
	cargo test --workspace --locked -q --no-run; \
	$(python_ends); \
	skipped=$$(mktemp); WEIR_SKIPPED_TESTS=$$skipped cargo test --workspace --locked -q; \
	$(xtask) vm smoke; \
	$(xtask) skipped $$skipped; rm $$skipped; \
	{ set +x; $(finish); } 2>/dev/null

test-all: test
	@. ./tools/deps.sh; set -ex; \
	cargo test --workspace --release --locked -q -- --include-ignored

# The sanitizer is not stable, but its library comes with the stable compiler.
# What leaks is the stacks of loom, with which the tests try all orders of threads.
test-asan: deps
	@. ./tools/deps.sh; set -ex; \
	ASAN_OPTIONS=detect_leaks=0 RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address cargo test -p bitfit --locked -q \
		--target x86_64-unknown-linux-gnu --target-dir target/asan --no-default-features --features std \
		--lib --test suite

test-vm: deps
	@vm=full; . ./tools/deps.sh; set -ex; \
	cargo xtask vm full; \
	cargo xtask vm conformance; \
	cargo xtask vm conformance --shares; \
	cargo xtask vm promises

test-python: deps
	@. ./tools/deps.sh; set -e; python=$$(./tools/python.sh python/requirements-cluster.txt); $(lint); \
	WEIR_PYTHON="$$python" cargo test -p weir --locked -q --test suite -- sweep::python

wheel:
	@only=build; . ./tools/deps.sh; ./tools/wheel.sh

# With GUIDED=yes the simulator is built by a profile of its own runs (tools/guide.sh): faster, and twice as long to build.
# Program and benchmark are built together in any case, since the profile holds for what was built with it.
GUIDED ?=
TOGETHER = -p weir -p simulator --bench speed
GUIDE = ./tools/guide.sh $(TOGETHER) --bin weir

bench: deps
	@. ./tools/deps.sh; set -e; \
	[ -z "$(GUIDED)" ] || { \
		profile=$$($(GUIDE)); RUSTFLAGS="-Cprofile-use=$$profile" cargo bench $(TOGETHER) --locked -q; exit; \
	}; \
	cargo bench --workspace --locked -q

# The page names the commit that last changed the claims or their workloads.
claims:
	@only=demo; . ./tools/deps.sh; set -e; $(begin); \
	cargo build --profile demo --locked -q -p weir --no-default-features; \
	$${CARGO_TARGET_DIR:-target}/demo/weir claims --all --page docs/claims.md \
		--commit "$$(git log -1 --format=%h -- claims/*.toml claims/workloads)"; \
	$(finish)

# The pages of docs/ as a book. The program that makes it is kept outside of the tree, where other trees find it, too.
mdbook_version = 0.5.4
manual:
	@only=build; . ./tools/deps.sh; set -e; \
	home=$${XDG_CACHE_HOME:-$$HOME/.cache}/weir/mdbook-$(mdbook_version); \
	[ -x "$$home/bin/mdbook" ] || cargo install --locked -q --version $(mdbook_version) --root "$$home" \
		--no-default-features --features search mdbook; \
	"$$home/bin/mdbook" build docs; \
	echo "target/manual/index.html"

# The pictures of README and manual, after a change of the pages.
pictures:
	@only=demo; . ./tools/deps.sh; set -e; \
	cargo build --profile demo --locked -q -p weir --no-default-features; ./tools/pictures.sh

# The simulator in a browser. `playground-tools` gets a compiler for it where rustup cannot.
playground:
	@only=build; . ./tools/deps.sh; ./tools/playground.sh

slides:
	@only=build; . ./tools/deps.sh; built=$${CARGO_TARGET_DIR:-target}/playground; mkdir -p "$$built"; \
	cargo run -q --locked -p playground-page -- "$$built"

playground-tools:
	@./tools/playground.sh tools

test-playground: playground
	@. ./tools/deps.sh; set -ex; $(lint); \
	WEIR_PLAYGROUND=$$(realpath "$${CARGO_TARGET_DIR:-target}/playground/index.html") \
		cargo test --workspace --locked -q --test suite -- playground slides

# Licences, advisories, duplicates and sources of the dependencies, by deny.toml. The advisories come from the network;
# `cargo xtask tidy` checks the licences without it.
deny_version = 0.20.2
deny: deps
	@. ./tools/deps.sh; set -e; \
	home=$${XDG_CACHE_HOME:-$$HOME/.cache}/weir/cargo-deny-$(deny_version); \
	deny=$$(command -v cargo-deny || echo "$$home/bin/cargo-deny"); \
	[ -x "$$deny" ] || cargo install --locked -q --version $(deny_version) --root "$$home" cargo-deny; \
	"$$deny" check

PREFIX ?= /usr/local
DESTDIR ?=
PROFILE ?= release
STRIP ?= -s
BUILT = $${CARGO_TARGET_DIR:-target}/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))
SHARE = $(DESTDIR)$(PREFIX)/share

# Neither the program nor what it carries shall tell where it was built: a package is the same bytes on every machine.
# Of several prefixes the compiler takes the last that fits, so the tree, which may contain the others, comes first.
# libbpf is built by a make of its own, which must not hear of our variables: it would install itself into DESTDIR.
install:
	@only=build; . ./tools/deps.sh; set -e; \
	registry=$$(realpath -m "$${CARGO_HOME:-$$HOME/.cargo}"); built=$$(realpath -m "$(BUILT)"); \
	rust=$$(rustc --print sysroot); [ "$$rust" != /usr ] || rust=/usr/lib/rustlib; \
	for pair in "$$PWD=/usr/src/weir" "$$built=/usr/src/weir/built" "$$registry=/usr/src/cargo" "$$rust=/usr/src/rust"; do \
		RUSTFLAGS="$$RUSTFLAGS --remap-path-prefix=$$pair"; CFLAGS="$$CFLAGS -ffile-prefix-map=$$pair"; \
	done; \
	export RUSTFLAGS CFLAGS; unset MAKEFLAGS MFLAGS MAKEOVERRIDES DESTDIR PREFIX STRIP; \
	[ -z "$(GUIDED)" ] || { profile=$$($(GUIDE)); RUSTFLAGS="$$RUSTFLAGS -Cprofile-use=$$profile"; }; set -x; \
	cargo build --profile $(PROFILE) --locked -q $(if $(GUIDED),$(TOGETHER) --bin weir,-p weir); \
	install -D -m 755 $(STRIP) "$$built/weir" "$(DESTDIR)$(PREFIX)/bin/weir"; \
	weir="$(DESTDIR)$(PREFIX)/bin/weir"; \
	if grep -q -a -F -e "$$PWD" -e "$$built" -e "$$registry" -e "$$rust" "$$weir"; then \
		echo "$$weir names the folder of its build" >&2; exit 1; \
	fi; \
	"$$weir" generate man "$(SHARE)/man/man1"; \
	"$$weir" generate completions target/completions; \
	install -D -m 644 target/completions/weir "$(SHARE)/bash-completion/completions/weir"; \
	install -D -m 644 target/completions/_weir "$(SHARE)/zsh/site-functions/_weir"; \
	install -D -m 644 target/completions/weir.fish "$(SHARE)/fish/vendor_completions.d/weir.fish"; \
	"$$weir" generate headers "$(DESTDIR)$(PREFIX)/include"; \
	"$$weir" generate objects "$(DESTDIR)$(PREFIX)/lib/weir"; \
	for file in policies/*/*.bpf.c docs/*.md docs/*/*.md docs/images/* docs/schema/* lab/results/*.md; do \
		install -D -m 644 "$$file" "$(SHARE)/doc/weir/$$file"; \
	done; \
	install -m 644 LICENSE README.md CHANGELOG.md "$(SHARE)/doc/weir"

uninstall:
	rm -rf "$(DESTDIR)$(PREFIX)/bin/weir" "$(SHARE)"/man/man1/weir.1 "$(SHARE)"/man/man1/weir-*.1 \
		"$(SHARE)/bash-completion/completions/weir" "$(SHARE)/zsh/site-functions/_weir" \
		"$(SHARE)/fish/vendor_completions.d/weir.fish" "$(SHARE)/doc/weir" \
		"$(DESTDIR)$(PREFIX)/include/weir" "$(DESTDIR)$(PREFIX)/lib/weir"

test-install:
	@./tools/try-install.sh

deb:
	@only=build; . ./tools/deps.sh; ./packaging/source.sh && ./packaging/build.sh bookworm

test-deb:
	@./packaging/try.sh bookworm trixie

deps:
	@. ./tools/deps.sh
