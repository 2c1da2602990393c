# SPDX-License-Identifier: GPL-2.0-only
# A test program of the workspace that needs this kernel. One test at a time: there is one scheduler.
. /steps/lib.sh
RUST_BACKTRACE=1 "$1" --test-threads=1 || fail "$1"
