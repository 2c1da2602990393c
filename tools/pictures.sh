#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Makes the pictures of the README and the manual: screenshots of pages, by headless Chromium. WEIR is the program that
# makes the runs; `make pictures` builds it.
set -e
cd "$(dirname "$0")/.."
built=${CARGO_TARGET_DIR:-target}
for browser in chromium chromium-headless-shell chromium-browser google-chrome ""; do
    [ -n "$browser" ] || { echo "To make pictures, Chromium is missing." >&2; exit 1; }
    command -v "$browser" >/dev/null && break
done

# shot ADDRESS WIDTH HEIGHT FILE: what the page shows after three seconds of its own time.
shot() {
    "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --virtual-time-budget=3000 \
        --window-size="$2,$3" --screenshot="$4" "$1" 2>/dev/null
    echo "$4"
}

"${WEIR:-$built/demo/weir}" sim kernel fifo bfs --workload video --machine laptop-2c4t --report "$built/picture.html" >/dev/null
shot "file://$(realpath "$built/picture.html")" 1000 760 docs/images/report.png
