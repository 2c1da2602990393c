# SPDX-License-Identifier: GPL-2.0-only
# Who loads it is killed without a word: the kernel takes the scheduler away.
. /steps/lib.sh
load "$1"
kill -KILL "$WEIR"
wait "$WEIR"
eventually 10 disabled || fail "weir was killed and the scheduler is still there"
