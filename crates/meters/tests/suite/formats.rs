// SPDX-License-Identifier: GPL-2.0-only
//! The originals' tables, produced from the data behind them.

use expect_test::expect;
use ids::Nanos;
use meters::{Lock, Locks, Sort, Trust, World, lockmeter};

/// Lines of the NIX device: type, address of the caller, number, longest and total wait in cycles; and the position
/// that a debugger gives for the address. In the order of the addresses.
const NIX: &str = "\
lock 0xfffffffff0119308 593 1121568 18533782 /sys/src/nix/k10/qmalloc.c:275
lock 0xfffffffff0119a17 11183 1365890 294252474 /sys/src/nix/k10/qmalloc.c:500
qlock 0xfffffffff012cf2e 155 1238110 10673584 /sys/src/nix/k10/ether82563.c:893
qlock 0xfffffffff01402af 376 574149 24205418 /sys/src/nix/ip/tcp.c:547
qlock 0xfffffffff0143bee 350 492911 14229109 /sys/src/nix/ip/tcp.c:2118
lock 0xfffffffff016226b 80 459279 1898897 /sys/src/nix/port/devmnt.c:1101
lock 0xfffffffff01620c0 162 1366053 14176025 /sys/src/nix/port/devmnt.c:1052
qlock 0xfffffffff01773cc 581 1009266 40825474 /sys/src/nix/port/qio.c:1187
lock 0xfffffffff017cbc3 78 12051128 126828266 /sys/src/nix/port/page.c:222
lock 0xfffffffff017ce18 112 6763350 293233176 /sys/src/nix/port/page.c:309
lock 0xfffffffff017d486 4 6326408 16216101 /sys/src/nix/port/page.c:560
lock 0xfffffffff017d490 50 12710074 215909070 /sys/src/nix/port/page.c:560
";

fn trust(elapsed: Nanos, cpus: u32) -> Trust {
    Trust { world: World::Real, elapsed, cpus, lost: 0, steal: None, foreign: None, unseen: None }
}

fn nix() -> Locks {
    let row = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse().unwrap();
        Lock {
            kind: words[0].to_owned(),
            pc: u64::from_str_radix(&words[1][2..], 16).ok(),
            contended: number(2),
            wait_max: Nanos(number(3)),
            wait_total: Nanos(number(4)),
            caller: words[5].to_owned(),
            ..Lock::default()
        }
    };
    let trust = trust(Nanos::from_ms(10_000), 32);
    Locks { followed: trust.elapsed, trust, rows: NIX.lines().map(row).collect(), microstates: None }
}

#[test]
fn nix_rows_are_printed_from_the_lines_of_its_device() {
    let mut table = nix();
    table.sort(Sort::Mean);
    expect![[r#"
        what pc #times maxtime tottime where meantime
        lock 0xfffffffff017d490 50 12710074 215909070 /sys/src/nix/port/page.c:560 4318181
        lock 0xfffffffff017d486 4 6326408 16216101 /sys/src/nix/port/page.c:560 4054025
        lock 0xfffffffff017ce18 112 6763350 293233176 /sys/src/nix/port/page.c:309 2618153
        lock 0xfffffffff017cbc3 78 12051128 126828266 /sys/src/nix/port/page.c:222 1626003
        lock 0xfffffffff01620c0 162 1366053 14176025 /sys/src/nix/port/devmnt.c:1052 87506
        qlock 0xfffffffff01773cc 581 1009266 40825474 /sys/src/nix/port/qio.c:1187 70267
        qlock 0xfffffffff012cf2e 155 1238110 10673584 /sys/src/nix/k10/ether82563.c:893 68861
        qlock 0xfffffffff01402af 376 574149 24205418 /sys/src/nix/ip/tcp.c:547 64376
        qlock 0xfffffffff0143bee 350 492911 14229109 /sys/src/nix/ip/tcp.c:2118 40654
        lock 0xfffffffff0119308 593 1121568 18533782 /sys/src/nix/k10/qmalloc.c:275 31254
        lock 0xfffffffff0119a17 11183 1365890 294252474 /sys/src/nix/k10/qmalloc.c:500 26312
        lock 0xfffffffff016226b 80 459279 1898897 /sys/src/nix/port/devmnt.c:1101 23736
    "#]]
    .assert_eq(&table.to_nix());
}

/// Sorted by mean, the worst row looks like page.c:560; most of the waiting is at qmalloc.c:500.
#[test]
fn order_by_total_shows_the_lock_that_order_by_mean_hides() {
    let mut table = nix();
    table.sort(Sort::Total);
    let callers: Vec<&str> = table.rows.iter().take(2).map(|row| row.caller.as_str()).collect();
    assert_eq!(callers, ["/sys/src/nix/k10/qmalloc.c:500", "/sys/src/nix/port/page.c:309"]);
    let json = table.to_json();
    assert_eq!(json["lock_wait_ns"], 1_070_981_376u64);
    assert_eq!(json["locks"][0]["share_ppm"], 274_750);
    let waits: u64 = table.rows.iter().map(|row| row.contended).sum();
    assert_eq!(waits, 13_724);
}

/// Data that give the two printed rows of the lecture to their digits. It does not tell how long it measured: all
/// columns agree for 36.9 to 38.4 s on its 12 CPUs.
fn lecture() -> Locks {
    let row = |caller: &str, count, contended, hold: (u64, u64), wait: (u64, u64)| Lock {
        kind: "spin".to_owned(),
        lock: "mapping->tree_lock".to_owned(),
        caller: caller.to_owned(),
        count: Some(count),
        contended,
        rejected: Some(0),
        wait_total: Nanos(wait.0),
        wait_max: Nanos(wait.1),
        hold_total: Some(Nanos(hold.0)),
        hold_max: Some(Nanos(hold.1)),
        ..Lock::default()
    };
    Locks {
        trust: trust(Nanos::from_ms(37_500), 12),
        followed: Nanos::from_ms(37_500),
        rows: vec![
            row("find_lock_page+0x30", 50_542_055, 6_621_009, (27_110_000_000, 9_500), (191_250_000_000, 20_000_000)),
            row("find_lock_page+0x130", 1_113, 949, (1_900_000, 6_200), (43_700_000, 4_016_000)),
        ],
        microstates: None,
    }
}

#[test]
fn lockmeter_rows_are_printed_from_counts_and_sums() {
    let text = lockmeter(&lecture());
    let rows: Vec<String> =
        text.lines().map(|line| line.split('\t').collect::<Vec<_>>().join(" ").trim_end().to_owned()).collect();
    let expected = [
        "SPINLOCKS HOLD WAIT",
        "UTIL CON MEAN(MAX) MEAN(MAX) (% CPU) TOTAL NOWAIT SPIN RJECT NAME",
        "72.3% 13.1% 0.5us(9.5us) 29us(20ms) (42.5%) 50542055 86.9% 13.1% 0% find_lock_page+0x30",
        "0.01% 85.3% 1.7us(6.2us) 46us(4016us) (0.01%) 1113 14.7% 85.3% 0% find_lock_page+0x130",
    ];
    assert_eq!(rows, expected);
}

/// Instances of a task are one caller, and the runqueues of all CPUs one row; a place with one lock keeps its name.
#[test]
fn rows_by_name_are_places_in_the_code() {
    let row = |kind: &str, lock: &str, caller: &str, wait| Lock {
        kind: kind.to_owned(),
        lock: lock.to_owned(),
        caller: caller.to_owned(),
        pc: Some(wait),
        count: Some(2 * wait),
        contended: wait,
        wait_total: Nanos(10 * wait),
        wait_max: Nanos(wait),
        ..Lock::default()
    };
    let rows = vec![
        row("spin", "tree", "find-0", 1),
        row("spin", "tree", "find-11", 2),
        row("runqueue", "CPU 0", "wakeup", 3),
        row("runqueue", "CPU 1", "wakeup", 4),
        row("runqueue", "CPU 1", "dispatch", 5),
        row("mutex", "m", "a-b", 6),
        row("mutex", "m", "7", 7),
    ];
    let table = Locks { trust: trust(Nanos(1_000), 1), followed: Nanos(1_000), rows, microstates: None }.by_name();
    let rows: Vec<_> =
        table.rows.iter().map(|row| (&*row.lock, &*row.caller, row.contended, row.wait_max.0, row.pc)).collect();
    let expected = [
        ("m", "7", 7, 7, Some(7)),
        ("m", "a-b", 6, 6, Some(6)),
        ("CPU 1", "dispatch", 5, 5, Some(5)),
        ("2 locks", "wakeup", 7, 4, None),
        ("tree", "find", 3, 2, None),
    ];
    assert_eq!(rows, expected);
    assert_eq!(table.wait_total(), Nanos(280));
}

/// TOTAL x HOLD / UTIL of the lecture's first row is the measured time.
#[test]
fn self_check_of_the_lecture_holds_and_fails_for_wrong_data() {
    let mut table = lecture();
    let checks = table.checks();
    assert!(checks.len() >= 2 && checks.iter().all(|check| check.holds), "{checks:?}");
    table.rows[0].wait_max = Nanos::from_ms(38_000);
    assert!(table.checks().iter().any(|check| !check.holds));
}
