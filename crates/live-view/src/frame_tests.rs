// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use crate::{Latencies, Waiter};
use ids::CpuId;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn lines(snapshot: &Snapshot, wide: u16, tall: u16) -> Vec<String> {
    let head = Head { title: "bfs, workload build, kernel 7.2".to_owned(), foot: "q ends the run".to_owned() };
    let mut terminal = Terminal::new(TestBackend::new(wide, tall)).unwrap();
    terminal.draw(|frame| draw(frame, &head, snapshot)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y: u16| (0..wide).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..tall).map(row).collect()
}

fn cpu(run: u64, others: u64, idle: u64, current: Option<&str>) -> CpuShare {
    let [run, others, idle] = [run, others, idle].map(Nanos::from_ms);
    let current = current.map(str::to_owned);
    CpuShare { run, others, idle, is_offline: false, waiting: Some(2), current }
}

fn example() -> Snapshot {
    let mut latencies = Latencies::default();
    [700, 3_000, 4_000, 60_000, 2_000_000].into_iter().for_each(|wait| latencies.record(Nanos(wait)));
    let offline = CpuShare { is_offline: true, ..CpuShare::default() };
    Snapshot {
        elapsed: Nanos::from_ms(12_340),
        interval: Nanos::from_secs(1),
        switches: 12_345,
        wakeups: 6_789,
        alive: Some(131),
        cpus: vec![
            cpu(500, 250, 250, Some("cc1[131]")),
            cpu(1_000, 0, 0, Some("a-task-with-a-very-long-name[132]")),
            cpu(0, 0, 1_000, None),
            offline,
        ],
        latencies,
        waiters: Some(vec![
            Waiter { name: "cc1[130]".to_owned(), waited: Nanos(12_000_000), now: Some((Nanos(3_400), CpuId(3))) },
            Waiter { name: "make[100]".to_owned(), waited: Nanos(5_000), now: None },
        ]),
        depths: Some(vec![0, 1, 8, 4]),
        frame: Nanos::from_ms(200),
    }
}

#[test]
fn frame_of_80_by_24_shows_all_parts() {
    let shown = lines(&example(), 80, 24);
    let wanted = [
        "bfs, workload build, kernel 7.2",
        "12.3 s · 12,345 switches/s · 6,789 wakeups/s · 131 tasks",
        "┌CPUs: █ run, ▒ others, · idle",
        "│   0 █████████████████▒▒▒▒▒▒▒▒········  75 %    2 wait cc1[131]",
        "│   1 █████████████████████████████████ 100 %    2 wait a-task-with-a-very-lon",
        "│   2 ·································   0 %    2 wait",
        "│   3 offline",
        "┌wakeup latency, last 5 to 10 s────────┐┌longest run delay, last 5 to 10 s─────┐",
        "│p50 4.00 us, p99 2.00 ms, max 2.00 ms ││task            waited      now     on│",
        "q ends the run",
    ];
    for part in wanted {
        assert!(shown.iter().any(|line| line.starts_with(part)), "{part:?} in\n{}", shown.join("\n"));
    }
    assert!(shown.iter().any(|line| line.contains("│cc1[130]       12.0 ms  3.40 us   CPU3│")), "{}", shown.join("\n"));
    assert!(shown.iter().any(|line| line.contains("≤ 10 us █")), "{}", shown.join("\n"));
    assert!(shown.iter().any(|line| line.contains("tasks waiting for a CPU: 4, at most 8 in the last 0.8 s")));
    assert!(shown.iter().all(|line| line.chars().count() == 80));
}

/// Every CPU has a bar or a character, or is counted in the "more CPUs" line.
#[test]
fn any_number_of_cpus_is_accounted_for() {
    for cpus in [1, 2, 8, 9, 24, 64, 128, 512, 4096] {
        let snapshot = Snapshot { cpus: vec![cpu(1_000, 0, 0, None); cpus], ..example() };
        for (wide, tall) in [(80, 24), (132, 50), (40, 20)] {
            let shown = lines(&snapshot, wide, tall).join("\n");
            let bars = shown.matches("100 %").count();
            let signs = shown.matches('█').count();
            let more =
                shown.lines().find_map(|line| line.split("and ").nth(1)?.split(' ').next()?.parse::<usize>().ok());
            let counted = bars == cpus || signs + more.unwrap_or(0) >= cpus;
            assert!(counted, "{cpus} CPUs on {wide} x {tall}: {bars} bars, {signs} signs, {more:?} more\n{shown}");
            assert!(shown.contains("q ends the run"), "{shown}");
        }
    }
}

#[test]
fn extreme_sizes_and_values_are_drawn() {
    let odd = Snapshot {
        cpus: vec![CpuShare { run: Nanos(u64::MAX / 4), ..CpuShare::default() }],
        depths: Some(vec![u32::MAX; 500]),
        waiters: Some(Vec::new()),
        elapsed: Nanos(u64::MAX),
        ..Snapshot::default()
    };
    for snapshot in [Snapshot::default(), odd, example()] {
        for (wide, tall) in [(1, 1), (2, 3), (10, 5), (20, 80), (80, 24), (300, 100)] {
            assert_eq!(lines(&snapshot, wide, tall).len(), usize::from(tall));
        }
    }
}

#[test]
fn narrow_frame_keeps_names_and_drops_cpus() {
    let shown = lines(&example(), 60, 20).join("\n");
    assert!(shown.contains("│cc1[130]    12.0 ms  3.40 us│"), "{shown}");
}

#[test]
fn unknown_values_are_not_shown_as_zero() {
    let unknown = Snapshot { waiters: None, depths: None, alive: None, ..example() };
    let shown = lines(&unknown, 80, 24).join("\n");
    assert!(shown.contains("not available: tasks are tracked"), "{shown}");
    assert!(!shown.contains("tasks waiting for a CPU") && !shown.contains("131 tasks"), "{shown}");
}

#[test]
fn names_do_not_control_the_terminal() {
    const HOSTILE: &str = "a\u{1b}[2J\r\u{9b}b\u{202e}\u{200f}c";
    let mut snapshot = example();
    snapshot.cpus[0].current = Some(HOSTILE.to_owned());
    snapshot.waiters = Some(vec![Waiter { name: HOSTILE.to_owned(), waited: Nanos(12_000_000), now: None }]);
    let head = Head { title: HOSTILE.to_owned(), foot: HOSTILE.to_owned() };
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    let is_clean = |terminal: &Terminal<TestBackend>| {
        let cells = &terminal.backend().buffer().content;
        cells.iter().all(|cell| report::escape(cell.symbol()) == cell.symbol())
    };
    terminal.draw(|frame| draw(frame, &head, &snapshot)).unwrap();
    assert!(is_clean(&terminal));
    terminal.draw(|frame| crate::draw_table(frame, HOSTILE, HOSTILE, HOSTILE)).unwrap();
    assert!(is_clean(&terminal));
}
