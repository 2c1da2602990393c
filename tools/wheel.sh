#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Builds a wheel of the Python package with the program inside, in target/wheels, and checks it: it must install into an
# empty environment and simulate a run there, and auditwheel must find no library that not every Linux has.
#
# The wheel runs where the C library is at least as new as here, which auditwheel writes into its name: manylinux_2_34 if
# built on Debian 12. libbpf is linked statically; libelf, zlib and libzstd are copied into the wheel.

set -e
cd "$(dirname "$0")/.."
python=$(./tools/python.sh python/requirements-wheel.txt)
bin=$(dirname "$python")
wheels=$(realpath -m target/wheels)
rm -rf "$wheels"
(cd python && PATH="$bin:$PATH" "$bin/maturin" build --release --locked --compatibility linux --out "$wheels")
built=$(ls "$wheels"/*.whl)
"$bin/auditwheel" show "$built"
PATH="$bin:$PATH" "$bin/auditwheel" repair --wheel-dir "$wheels/repaired" "$built"
rm "$built"
mv "$wheels"/repaired/*.whl "$wheels"
rmdir "$wheels/repaired"
built=$(ls "$wheels"/*.whl)

trial=$(mktemp -d)
trap 'rm -rf "$trial"' EXIT
python3 -m venv "$trial/venv"
"$trial/venv/bin/pip" install -q --disable-pip-version-check "$built"
(cd "$trial" && env -u WEIR_PROGRAM -u PYTHONPATH PATH=/usr/bin:/bin "$trial/venv/bin/python" -c '
import weir
assert weir.program().startswith("'"$trial"'"), weir.program()
result = weir.sim("bfs", machine="laptop-2c4t", workload="video", duration="20ms", seed=1)
assert len(result.runs) == 1 and result.is_fine
print("the wheel simulates:", int(result.runs["wakeups"][0]), "wakeups")
')
ls -l "$built"
