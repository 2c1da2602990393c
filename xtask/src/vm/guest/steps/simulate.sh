# SPDX-License-Identifier: GPL-2.0-only
# The program starts: its libraries are there, and it simulates as on any host.
. /steps/lib.sh
weir list || fail "weir does not start"
