#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs programs that verify what they stored on a mounted ixfs, as user 0. Usage: programs.sh IXFS
# A program that is not installed is skipped, and the last line counts those.
set -eu
ixfs=$(realpath "${1:?usage: programs.sh IXFS}")
base=$(mktemp -d)
mkdir "$base/m"
skipped=0
passed=0
finish() {
    umount "$base/m" 2> /dev/null || true
    rm -rf "$base"
}
trap finish EXIT
"$ixfs" mount --size 1G "$base/store" "$base/m"
cd "$base/m"

have() {
    if command -v "$1" > /dev/null; then return 0; fi
    echo "skipped: $1 is not installed"
    skipped=$((skipped + 1))
    return 1
}
pass() {
    echo "passed: $*"
    passed=$((passed + 1))
}

if have dbench; then
    loader=$(find /usr/share/dbench -name 'client.txt' 2> /dev/null | head -1)
    dbench -t 10 ${loader:+-c "$loader"} -D . 4 > "$base/dbench.log" || { cat "$base/dbench.log"; exit 1; }
    pass "dbench, 4 clients: $(grep Throughput "$base/dbench.log")"
fi
if have fio; then
    fio --name=verify --directory=. --size=64M --bs=4k --rw=randwrite --ioengine=psync --fsync=64 --verify=crc32c \
        --verify_fatal=1 --do_verify=1 > "$base/fio.log" || { cat "$base/fio.log"; exit 1; }
    pass "fio --verify=crc32c"
fi
if have git; then
    git init -q origin
    (
        cd origin
        for n in 1 2 3 4 5 6 7 8; do
            for file in a b c d e f; do echo "int ${file}_$n(void) { return $n; }" > $file$n.c; done
            printf 'int main(void) { return 0; }\n' > main.c
            printf 'prog: $(patsubst %%.c,%%.o,$(wildcard *.c))\n\t$(CC) -o $@ $^\n' > Makefile
            git add . && git -c user.name=n -c user.email=e commit -qm "$n"
        done
    )
    git clone -q origin clone
    if have make && have cc; then make -s -j2 -C clone prog && clone/prog && pass "make in a clone"; fi
    git -C clone fsck --strict
    pass "git clone, git fsck"
fi
if have sqlite3; then
    sqlite3 db 'create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
        insert into t select i, hex(randomblob(40)) from n; create index x on t(b); delete from t where a % 3 = 0; vacuum;'
    [ "$(sqlite3 db 'pragma integrity_check')" = ok ]
    pass "SQLite integrity_check"
fi
# A killed server must leave all of it. `sync .` is an fsync of the directory; `sync -f` does not reach FUSE servers.
find . -type f -exec sha256sum {} + > "$base/sums"
sync .
cd "$base"
kill -9 "$(pgrep -f "mount --size 1G $base/store" | head -1)"
umount -l m
"$ixfs" mount "$base/store" "$base/m"
(cd m && sha256sum --quiet -c "$base/sums")
pass "all files after SIGKILL"
umount m
"$ixfs" check "$base/store"
echo "$passed passed, $skipped skipped"
