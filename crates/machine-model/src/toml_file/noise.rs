// SPDX-License-Identifier: GPL-2.0-only
//! Table `[noise]` of a machine file.

use super::{Table, Value};
use crate::{BackgroundThread, MachineError, Noise, NoiseSource, Spread};

/// Maximum of any value in its unit; keeps sums and products far from overflow.
const LARGEST: i64 = 1_000_000_000;
/// Work may shrink, but not to zero.
const LEAST_PPM: i64 = -900_000;

const QUANTILES: &str =
    "11 nondecreasing integers: minimum, quantiles at 1, 5, 10, 25, 50, 75, 90, 95 and 99 %, maximum";

/// Reads the table. Distributions it does not contain have no variation.
pub(super) fn read(mut table: Table<'_, '_>) -> Result<Noise, MachineError> {
    let off = match table.optional("off") {
        Some(value) => sources(&table, value)?,
        None => Vec::new(),
    };
    let mut delay = |key| spread(&mut table, key, 0);
    let (start_ns, tick_ns, timer_ns) = (delay("start_ns")?, delay("tick_ns")?, delay("timer_ns")?);
    let (steal_every_us, steal_ns) = (delay("steal_every_us")?, delay("steal_ns")?);
    let (disturbance_every_ns, disturbance_ns) = (delay("disturbance_every_ns")?, delay("disturbance_ns")?);
    let mut part = |key| spread(&mut table, key, LEAST_PPM);
    let (work_run_ppm, work_task_ppm) = (part("work_run_ppm")?, part("work_task_ppm")?);
    let (work_segment_ppm, idle_exit_ppm) = (part("work_segment_ppm")?, part("idle_exit_ppm")?);
    let (wakeup_ppm, switch_ppm) = (part("wakeup_ppm")?, part("switch_ppm")?);
    let interrupt_ppm = part("interrupt_ppm")?;
    let threads = match table.optional("threads") {
        Some(value) => {
            let items = value.get_ref().as_array().ok_or_else(|| table.wrong("threads", value, "tables"))?;
            items.iter().map(|item| thread(&table, item)).collect::<Result<_, _>>()?
        }
        None => Vec::new(),
    };
    table.finish()?;
    Ok(Noise {
        off,
        start_ns,
        work_run_ppm,
        work_task_ppm,
        work_segment_ppm,
        disturbance_every_ns,
        disturbance_ns,
        tick_ns,
        idle_exit_ppm,
        timer_ns,
        wakeup_ppm,
        switch_ppm,
        interrupt_ppm,
        threads,
        steal_every_us,
        steal_ns,
    })
}

fn sources(table: &Table<'_, '_>, value: Value<'_, '_>) -> Result<Vec<NoiseSource>, MachineError> {
    let items = value.get_ref().as_array().ok_or_else(|| table.wrong("off", value, "a list of sources"))?;
    let source = |item: Value<'_, '_>| {
        let word = item.get_ref().as_str().ok_or_else(|| table.wrong("off", item, "the name of a source"))?;
        word.parse().map_err(|problem: String| table.source.error(&item.span(), problem))
    };
    items.iter().map(source).collect()
}

fn thread(outer: &Table<'_, '_>, item: Value<'_, '_>) -> Result<BackgroundThread, MachineError> {
    let what = "[[noise.threads]]";
    let content = item.get_ref().as_table().ok_or_else(|| outer.wrong("threads", item, "tables"))?;
    let mut table = Table { source: outer.source, what, span: item.span(), content, known: Vec::new() };
    let name = table.required("name").and_then(|value| table.string("name", value))?.to_owned();
    let each_cpu = match table.optional("each_cpu") {
        Some(value) => value.get_ref().as_bool().ok_or_else(|| table.wrong("each_cpu", value, "true or false"))?,
        None => false,
    };
    let nice = match table.optional("nice") {
        Some(value) => {
            let nice = signed(value).filter(|nice| (-20..=19).contains(nice));
            nice.ok_or_else(|| table.wrong("nice", value, "an integer from -20 to 19"))? as i8
        }
        None => 0,
    };
    table.required("sleep_us")?;
    table.required("work_ns")?;
    // A thread that never sleeps would be a workload, not noise.
    let (sleep_us, work_ns) = (spread(&mut table, "sleep_us", 1)?, spread(&mut table, "work_ns", 1)?);
    table.known.dedup();
    table.finish()?;
    Ok(BackgroundThread { name, each_cpu, nice, sleep_us, work_ns })
}

fn signed(value: Value<'_, '_>) -> Option<i64> {
    let number = value.get_ref().as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn spread(table: &mut Table<'_, '_>, key: &'static str, least: i64) -> Result<Spread, MachineError> {
    let Some(value) = table.optional(key) else { return Ok(Spread::NONE) };
    let wrong = || table.wrong(key, value, &format!("{QUANTILES}, from {least} to {LARGEST}"));
    let items = value.get_ref().as_array().ok_or_else(wrong)?;
    let numbers: Option<Vec<i64>> = items.iter().map(signed).collect();
    let numbers: Option<[i64; 11]> = numbers.and_then(|numbers| numbers.try_into().ok());
    let fits = |numbers: &[i64; 11]| numbers.iter().all(|number| (least..=LARGEST).contains(number));
    numbers.filter(fits).and_then(Spread::new).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use crate::{Machine, NoiseSource};

    const HEAD: &str = "description = \"test\"\nhz = 250\nno_hz_idle = true\ntopology = { shape = \"pu:2\" }\n";
    const GOOD: &str = r#"[noise]
off = ["order", "steal"]
timer_ns = [0, 0, 0, 0, 0, 100, 200, 400, 800, 2000, 9000]
work_run_ppm = [-9, -8, -7, -6, -5, 0, 5, 6, 7, 8, 9]
[[noise.threads]]
name = "kworker"
each_cpu = true
sleep_us = [1, 1, 1, 1, 1, 2, 3, 4, 5, 6, 7]
work_ns = [100, 100, 100, 100, 100, 200, 300, 400, 500, 600, 700]
"#;

    #[test]
    fn noise_table_is_read() {
        let noise = Machine::from_toml("f.toml", &format!("{HEAD}{GOOD}")).unwrap().noise;
        assert_eq!(noise.off, [NoiseSource::Order, NoiseSource::Steal]);
        assert_eq!((noise.timer_ns.quantiles()[9], noise.work_run_ppm.quantiles()[0]), (2_000, -9));
        assert!(noise.work_task_ppm.is_none());
        let [thread] = &noise.threads[..] else { panic!("one thread") };
        assert_eq!((thread.name.as_str(), thread.each_cpu, thread.nice), ("kworker", true, 0));
        assert_eq!((thread.sleep_us.quantiles()[10], thread.work_ns.quantiles()[10]), (7, 700));
    }

    #[test]
    fn default_noise_is_that_of_the_reference_machine() {
        let noise = Machine::from_toml("f.toml", HEAD).unwrap().noise;
        assert_eq!(noise, Machine::preset("server-64").unwrap().noise);
        assert!(noise.has(NoiseSource::Threads) && !noise.threads.is_empty());
        assert!(noise.steal_every_us.is_none(), "steal time depends on the host, not on the machine");
    }

    #[test]
    fn invalid_noise_tables_give_errors_with_line() {
        let cases = [
            ("\"steal\"", "\"stael\"", "f.toml:6: unknown noise source \"stael\"; expected one of"),
            ("off = [\"order\", \"steal\"]", "off = 1", "f.toml:6: off is 1; expected a list of sources"),
            ("[0, 0, 0, 0, 0, 100", "[0, 0, 0, 0, 100", "f.toml:7: timer_ns is [0, 0, 0, 0, 100, "),
            ("800, 2000, 9000", "800, 2000, 200", "f.toml:7: timer_ns is"),
            ("[0, 0, 0, 0, 0, 100", "[-1, 0, 0, 0, 0, 100", "f.toml:7: timer_ns is"),
            ("[-9", "[-900001", "f.toml:8: work_run_ppm is"),
            ("name", "nmae", "f.toml:9: [[noise.threads]] has no key name"),
            ("each_cpu = true", "each_cpu = 1", "f.toml:11: each_cpu is 1; expected true or false"),
            ("each_cpu = true", "nice = 20", "f.toml:11: nice is 20; expected an integer from -20 to 19"),
            ("sleep_us = [1,", "sleep_us = [0,", "f.toml:12: sleep_us is"),
            ("timer_ns", "timers_ns", "f.toml:7: [noise] has an unknown key timers_ns (did you mean timer_ns?)"),
        ];
        for (from, to, expected) in cases {
            assert!(GOOD.contains(from), "{from}");
            let text = format!("{HEAD}{}", GOOD.replacen(from, to, 1));
            let error = Machine::from_toml("f.toml", &text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
