# SPDX-License-Identifier: GPL-2.0-only
# Runs the quick scenarios of verify/conformance/ and compares with the model, which models 7.2. Leaves a quiet
# machine.
. /steps/lib.sh

case $(uname -r) in
7.2.*) ;;
*) echo "no model of this kernel" && exit 0 ;;
esac

quieten
conformance kernel --smoke --plays 1 -o /tmp/records || fail "a scenario cannot be run"
conformance compare /tmp/records || fail "kernel and model differ"
number scenarios "$(ls /tmp/records | wc -l)"
