// SPDX-License-Identifier: GPL-2.0-only
//! Page cache: hits, misses, write-back by kthreads, writers that wait, `fsync`.

use crate::common::{Played, Scheduler, free_machine, rt_app};
use ids::Nanos;
use machine_model::{Effect, Machine};
use measures::{PageCacheMeasures, TaskMeasures};

/// A disk that needs 1 ms for a read and 2 ms for a write, and a cache whose copies take 1 us for each 1000 bytes.
fn machine(cache: &str) -> Machine {
    let mut machine = free_machine("core:2 pu:1");
    machine
        .add_disk("nvme,draw=constant,read_ns=1000000,write_ns=2000000,mb_s=100000,servers=1,top_ns=0,bottom_ns=0")
        .unwrap();
    machine.set_page_cache(cache).unwrap();
    machine
}

/// Copies only.
const COPIES: &str = "overhead_ns=0,mb_s=1000";

fn play(machine: &Machine, text: &str) -> Played {
    Scheduler::kernel().play(machine, &rt_app(text)).completed()
}

fn cache(played: &Played) -> PageCacheMeasures {
    played.outcome.measures.page_cache.unwrap()
}

fn task(played: &Played) -> &TaskMeasures {
    played.outcome.measures.tasks.iter().find(|task| !task.kernel_thread).unwrap()
}

#[test]
fn cached_read_waits_for_the_disk_once_and_then_is_cpu_work() {
    let machine = machine(&format!("64,{COPIES}"));
    let text = r#"{"tasks": {"t": {"loop": 10, "read": {"bytes": 8000, "at": 0, "cached": true}}}}"#;
    let played = play(&machine, text);
    let disk = &played.outcome.measures.disks.as_ref().unwrap()[0];
    assert_eq!((disk.reads, disk.read_bytes), (1, 8_192));
    assert_eq!((cache(&played).miss_bytes, cache(&played).hit_bytes), (8_192, 9 * 8_192));
    let account = &task(&played).account;
    assert_eq!((account.run, account.blocked.0 / 1_000), (Nanos(10 * 8_000), 1_000), "10 copies and one read");
    let mut without = machine.clone();
    without.effects.switch_off(Effect::PageCache);
    let direct = play(&without, text);
    assert_eq!(direct.outcome.measures.disks.as_ref().unwrap()[0].reads, 10);
    assert_eq!(direct.outcome.measures.page_cache, None);
}

#[test]
fn reads_within_a_region_hit_as_often_as_the_cache_holds_it() {
    let text = |within: u64| {
        format!(
            r#"{{"tasks": {{"t": {{"loop": 20000, "read": {{"bytes": 4096, "cached": true, "within": {within}}}}}}}}}"#
        )
    };
    let hits = |within_mb: u64| {
        let played = play(&machine(&format!("4,{COPIES}")), &text(within_mb << 20));
        let PageCacheMeasures { hit_bytes, miss_bytes, .. } = cache(&played);
        hit_bytes as f64 / (hit_bytes + miss_bytes) as f64
    };
    // All 512 pages of 2 MiB are read once. Of 16 MiB, the cache holds a quarter when it is full: reads fill it first.
    assert!((0.973..0.976).contains(&hits(2)), "{}", hits(2));
    assert!((0.22..0.25).contains(&hits(16)), "{}", hits(16));
}

#[test]
fn dirty_pages_are_written_back_by_a_kthread_while_the_writer_continues() {
    let machine = machine(&format!("40,background_percent=10,limit_percent=50,{COPIES}"));
    // 4 MiB of 40 are the background share; the writer makes 10 MiB dirty, and then works for a second.
    let text = r#"{"tasks": {"t": {"phases": {
        "write": {"loop": 10, "write": {"bytes": 1048576, "at": "sequential", "cached": true}},
        "work": {"loop": 1, "run": 1000000}}, "loop": 1}}}"#;
    let played = play(&machine, text);
    let PageCacheMeasures { written_bytes, flushed_bytes, dirty_bytes, throttled, .. } = cache(&played);
    assert_eq!((written_bytes, throttled), (10 << 20, Nanos::ZERO));
    assert_eq!(flushed_bytes + dirty_bytes, written_bytes);
    assert!((6 << 20..=8 << 20).contains(&flushed_bytes), "until the background share is left: {flushed_bytes}");
    assert_eq!(task(&played).account.blocked, Nanos::ZERO, "the writer does not wait");
    let writes = played.outcome.measures.disks.as_ref().unwrap()[0].written_bytes;
    assert_eq!(writes, flushed_bytes);
}

#[test]
fn writer_waits_while_too_many_pages_are_dirty() {
    let machine = machine(&format!("40,background_percent=5,limit_percent=10,{COPIES}"));
    let text = r#"{"tasks": {"t": {"loop": 100, "write": {"bytes": 1048576, "at": "sequential", "cached": true}}}}"#;
    let played = play(&machine, text);
    let (cache, elapsed) = (cache(&played), played.outcome.measures.elapsed);
    assert!(cache.throttled > Nanos::ZERO && cache.throttled == task(&played).account.blocked);
    // The disk writes 1 MiB in 2.01 ms; the copies of 100 MiB alone would take 0.105 s.
    assert!(elapsed > Nanos::from_ms(180), "{elapsed}: the disk is the limit");
    assert!(cache.dirty_bytes <= (4 << 20) + (1 << 20), "{}", cache.dirty_bytes);
}

#[test]
fn old_dirty_pages_are_written_in_the_interval() {
    let machine = machine(&format!("64,flush_ms=100,expire_ms=200,{COPIES}"));
    let text = r#"{"tasks": {"t": {"loop": 1, "write": {"bytes": 4096, "cached": true}, "sleep": 1000000}}}"#;
    let played = play(&machine, text);
    assert_eq!((cache(&played).flushed_bytes, cache(&played).dirty_bytes), (4_096, 0));
}

#[test]
fn fsync_waits_until_the_pages_of_the_task_are_written() {
    let machine = machine(&format!("64,{COPIES}"));
    let text = r#"{"tasks": {"t": {"loop": 5, "write": {"bytes": 4096, "at": "sequential", "cached": true}, "fsync": ""},
        "other": {"loop": 1, "write": {"bytes": 4096, "at": 40960000, "cached": true}}}}"#;
    let played = play(&machine, text);
    let PageCacheMeasures { synced_bytes, dirty_bytes, flushed_bytes, .. } = cache(&played);
    assert_eq!((synced_bytes, flushed_bytes, dirty_bytes), (5 * 4_096, 0, 4_096), "the other task's page stays dirty");
    assert_eq!(task(&played).account.blocked.0 / 1_000_000, 10, "five writes of 2 ms");
}

#[test]
fn write_back_to_a_ram_disk_is_no_work_of_the_workload() {
    let mut machine = free_machine("core:2 pu:1");
    machine.add_disk("ram").unwrap();
    machine.set_page_cache(&format!("64,background_percent=0,flush_ms=10,expire_ms=0,{COPIES}")).unwrap();
    let text = r#"{"tasks": {"t": {"loop": 50, "write": {"bytes": 1048576, "at": "sequential", "cached": true}}}}"#;
    let played = play(&machine, text);
    assert!(cache(&played).flushed_bytes > 0);
    let [work, system] = [task(&played).account.work, played.outcome.measures.system_work.unwrap()];
    assert_eq!((work, system), (Nanos(50 * 1_048_576), work), "the writer copies, and does nothing else");
}
