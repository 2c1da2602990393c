# SPDX-License-Identifier: GPL-2.0-only
# Runs a test program of the workspace that needs this kernel, one test at a time, because there is only one sched_ext
# scheduler.
. /steps/lib.sh
RUST_BACKTRACE=1 "$1" --test-threads=1 || fail "$1"
