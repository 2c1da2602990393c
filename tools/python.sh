#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Prints the path of a Python with the modules of python/requirements.txt. They are installed once, outside of the tree,
# where other trees find them, too: it takes some 20 seconds and 620 MB. `tools/python.sh FILE...` installs the modules of
# further files of requirements as well, in an environment of their own.
#
# Exit status: 0 fine, 3 if there is no network, 1 for other failures.

cd "$(dirname "$0")/.." || exit 1
files="python/requirements.txt $*"
# shellcheck disable=SC2086 # words are wanted
version=$({ python3 --version; cat $files; } 2>/dev/null | cksum | cut -d' ' -f1)
home=${XDG_CACHE_HOME:-$HOME/.cache}/weir/python-$version
if [ ! -e "$home/complete" ]; then
    new=$home.$$
    log=$new.log
    mkdir -p "$(dirname "$home")" || exit 1
    # An environment cannot be moved, so it is built in its place; of two builds at the same time the second one waits.
    exec 9>"$home.lock" || exit 1
    flock 9
    if [ ! -e "$home/complete" ]; then
        rm -rf "$home"
        if ! {
            # shellcheck disable=SC2046 # words are wanted
            python3 -m venv "$home" &&
                "$home/bin/pip" install --disable-pip-version-check --no-compile $(printf ' -r %s' $files)
        } >"$log" 2>&1; then
            rm -rf "$home"
            tail -20 "$log" >&2
            status=1
            none='Failed to establish|Temporary failure in name|Network is unreachable|Timeout|timed out|ProxyError|Max retries'
            # Also what pip says of an index that it cannot reach.
            none="$none|No matching distribution found"
            grep -q -E "$none" "$log" && status=3
            rm -f "$log"
            exit $status
        fi
        rm -f "$log"
        : >"$home/complete"
    fi
fi
echo "$home/bin/python"
