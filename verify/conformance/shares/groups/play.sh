# SPDX-License-Identifier: GPL-2.0-only
# Runs in the deterministic virtual machine: each workload under the default scheduler. The results go to
# /out:
#   cargo xtask vm run verify/conformance/shares/groups/play.sh --file target/debug/weir --file
# verify/conformance/shares/groups \
#     --smp 1 --deterministic --timeout 400 --out FOLDER          (and with --smp 2)
cpus=$(grep -c ^processor /proc/cpuinfo)
for workload in flat nested sleep many nice pin; do
    [ $workload = pin ] && [ "$cpus" = 1 ] && continue
    weir run kernel -w /in/groups/$workload.json --format json >/out/$workload-$cpus.json || exit
done
