#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Plays the workloads of this folder with real threads, as root: `play.sh WEIR ROUNDS OUT` leaves OUT/1, OUT/2, … with
# the JSON and the saved run of each workload. Its group of tasks comes before all others of the machine.
set -eu
[ $# -eq 3 ] || { echo "usage: play.sh WEIR ROUNDS OUT" >&2; exit 2; }
weir=$(realpath "$1") rounds=$2 out=$3
here=$(dirname "$(realpath "$0")")
# A session of its own is an autogroup of its own.
if [ "${PLAYS_ALONE:-}" != 1 ]; then
    PLAYS_ALONE=1 exec setsid --wait "$0" "$weir" "$rounds" "$out"
fi
[ ! -w /proc/self/autogroup ] || echo -20 > /proc/self/autogroup
for round in $(seq "$rounds"); do
    mkdir -p "$out/$round"
    for file in "$here"/*.json "$here"/*.weir; do
        name=$(basename "$file"); name=${name%.*}
        "$weir" run --format json -w "$file" --save "$out/$round/$name.weirrun" > "$out/$round/$name.json" || [ $? -eq 1 ]
    done
done
