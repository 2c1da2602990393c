// SPDX-License-Identifier: GPL-2.0-only
//! Tests of pages as text: they contain the JSON's numbers, escape untrusted names, and load nothing.

#[allow(dead_code)]
use crate::common;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ids::Nanos;
use page::{Report, close_ups, page};
use report::{Record, RunReport, read_details, read_json};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::io::Read;

/// The page of these runs, and their JSON.
fn of(runs: &[RunReport]) -> (String, Value) {
    let json = report::to_json(runs);
    let (records, details) = (read_json(json.as_bytes()).unwrap(), read_details(json.as_bytes()).unwrap());
    let html = page(&Report {
        version: "0.1.0",
        command: Some("weir sim a b"),
        records: &records,
        details: &details,
        tracks: &[],
        refused: &["c on m: not loaded: <no> such thing".to_owned()],
    });
    (html, serde_json::from_str(&json).unwrap())
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let start = text.find(before).unwrap_or_else(|| panic!("no {before:?}")) + before.len();
    &text[start..start + text[start..].find(after).unwrap_or_else(|| panic!("no {after:?} after {before:?}"))]
}

/// Values of a row of the first table, one per setup.
fn values(html: &str, key: &str) -> Vec<Option<u64>> {
    let row = between(html, &format!("data-key=\"{key}\""), "</tr>");
    let cells = row.split("<td ").skip(1);
    let value = |cell: &str| {
        let tag = &cell[..cell.find('>').unwrap()];
        tag.contains("data-value=").then(|| between(tag, "data-value=\"", "\"").parse().unwrap())
    };
    cells.map(value).collect()
}

fn at<'a>(run: &'a Value, key: &str) -> &'a Value {
    key.split('.').fold(run, |value, part| &value[part])
}

#[test]
fn page_tables_contain_the_numbers_of_the_json() {
    let runs = [common::run("fifo", 1000, 5), common::run("bfs", 990, 4), common::ejected()];
    let (html, json) = of(&runs);
    let runs = json["runs"].as_array().unwrap();
    let mut rows = 0;
    for measure in &measures::catalogue::CATALOGUE {
        let wanted: Vec<Option<u64>> = runs.iter().map(|run| at(run, measure.key).as_u64()).collect();
        if wanted.iter().any(Option::is_some) {
            assert_eq!(values(&html, measure.key), wanted, "{}", measure.key);
            rows += 1;
        }
    }
    assert!(rows > 25, "{rows} rows");
}

#[test]
fn page_medians_and_sentences_agree_with_json_and_text() {
    let runs: Vec<RunReport> =
        [common::seeds("fifo", 1_000_000, 5, 4000), common::seeds("bfs", 950_000, 3, 4000)].concat();
    let (html, json) = of(&runs);
    for key in ["makespan_ns", "wakeup_latency_ns.p99", "context_switches"] {
        let medians = json["runs"].as_array().unwrap().chunks(16).map(|runs| {
            let mut values: Vec<u64> = runs.iter().map(|run| at(run, key).as_u64().unwrap()).collect();
            values.sort_unstable();
            values[7].midpoint(values[8])
        });
        assert_eq!(values(&html, key), medians.map(Some).collect::<Vec<_>>(), "{key}");
    }
    let records: Vec<Record> = runs.iter().map(Record::from).collect();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = words(&report::comparison(&records, report::View { columns: 200, all: false, pairs: false }));
    let content = report::content(&records);
    let table = &content.tables[0];
    assert!(!table.sentences.is_empty());
    for sentence in table.sentences.iter().map(|sentence| &sentence.text).chain([&content.explanation]) {
        assert!(html.contains(sentence.as_str()), "{sentence}");
        assert!(text.contains(&words(sentence)), "{sentence}");
    }
    let makespan = table.rows.iter().find(|row| row.measure.key == "makespan_ns").unwrap();
    let range = makespan.cells[1].versus.as_ref().unwrap().range.clone().unwrap();
    assert!(table.sentences[0].ranges.contains(&format!("makespan {range}")), "{:?}", table.sentences);
    // Marks and ranges are those of the text report.
    for row in table.rows.iter().filter(|row| row.is_shown) {
        let versus = row.cells[1].versus.as_ref().unwrap();
        let range = versus.range.clone().unwrap_or_default();
        assert!(text.contains(&words(&format!("{} {}", row.measure.label, row.cells[0].text))), "{}", row.measure.key);
        assert!(text.contains(&range), "{}: {range}", row.measure.key);
    }
}

/// Attempts to escape from an attribute, an element, a script, a comment or a line of text.
const HOSTILE: [&str; 8] = [
    "</script><script>document.title='owned'</script>",
    "\"><img src=x onerror=document.title='owned'>",
    "' onmouseover='document.title=1",
    "<!--",
    "]]></svg></style><b>",
    "&lt;b&gt;&#60;i&#62;",
    "\u{202e}desrever\u{0}\u{7}\u{1b}[31m",
    "${document.title='owned'}`",
];

#[test]
fn malicious_names_are_escaped() {
    let kind = ["<script", "</script", "<img", "<b>", "<i ", "<!", "<svg", "<style"];
    let counts = |html: &str| kind.map(|tag| html.matches(tag).count());
    let run = |name: &str| {
        let mut run = common::ejected();
        run.measures.tasks.truncate(3);
        run.measures.tasks.iter_mut().for_each(|task| task.name = name.to_owned());
        let lock = measures::LockUse {
            kind: "spin",
            lock: name.to_owned(),
            caller: name.to_owned(),
            wait_total: ids::Nanos(5),
            ..Default::default()
        };
        run.measures.locks = Some(vec![lock]);
        let exit = run.ending.ejected.as_mut().unwrap();
        (exit.reason, exit.message, exit.dump) = (name.to_owned(), name.to_owned(), name.to_owned());
        let tags = &mut run.tags;
        (tags.scheduler, tags.machine, tags.workload) = (name.to_owned(), name.to_owned(), name.to_owned());
        let other = RunReport { ending: Default::default(), ..run.clone() };
        let other = RunReport { tags: report::Tags { scheduler: format!("{name}2"), ..run.tags.clone() }, ..other };
        of(&[run, other]).0
    };
    let harmless = run("name");
    for name in HOSTILE {
        let html = run(name);
        assert_eq!(counts(&html), counts(&harmless), "{name:?} adds an element");
        let quotes = |html: &str| html.matches('"').count();
        assert_eq!(quotes(&html), quotes(&harmless), "{name:?} adds an attribute");
        assert!(!html.contains(['\u{202e}', '\u{0}', '\u{7}', '\u{1b}']), "{name:?} contains control characters");
    }
}

#[test]
fn page_loads_nothing_and_runs_only_its_own_script() {
    let (html, _) = of(&common::seeds("fifo", 1_000_000, 5, 4000));
    for word in ["http:", "https:", " src=", " href=", "@import", "url(\"", "fetch(", "XMLHttpRequest", "localStorage"]
    {
        assert!(!html.contains(word), "{word}");
    }
    let policy = between(&html, "Content-Security-Policy\" content=\"", "\"");
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    let script = between(&html, "<script>", "</script>");
    assert!(policy.contains(&format!("'sha256-{}'", BASE64.encode(Sha256::digest(script)))), "{policy}");
    assert_eq!(html.matches("<script>").count(), 1, "the policy allows one script");
}

#[test]
fn same_runs_give_identical_pages() {
    let runs = common::seeds("fifo", 1_000_000, 5, 4000);
    assert_eq!(of(&runs).0, of(&runs).0);
}

#[test]
fn embedded_data_contain_all_tasks() {
    let (html, json) = of(&[common::run("fifo", 1000, 5)]);
    let packed = BASE64.decode(between(&html, "id=\"tasks-data-0\" type=\"text/plain\">", "<")).unwrap();
    let mut text = String::new();
    flate2::read::DeflateDecoder::new(&*packed).read_to_string(&mut text).unwrap();
    let data: Value = serde_json::from_str(&text).unwrap();
    let tasks = json["runs"][0]["tasks"].as_array().unwrap();
    assert_eq!(data["rows"].as_array().unwrap().len(), tasks.len());
    for row in data["rows"].as_array().unwrap() {
        let task = tasks.iter().find(|task| task["pid"] == row[0]).unwrap();
        assert_eq!(
            [&row[2], &row[3], &row[4], &row[5]],
            ["cpu_ns", "runnable_ns", "blocked_ns", "stolen_ns"].map(|key| &task[key])
        );
        assert_eq!([&row[7], &row[8], &row[9]], ["p50", "p99", "max"].map(|key| &task["wakeup_latency_ns"][key]));
    }
}

#[test]
fn report_page_details_the_median_run_or_a_failed_one() {
    let mut runs = common::seeds("fifo", 1_000_000, 5, 4000);
    let records: Vec<Record> = runs.iter().map(Record::from).collect();
    let [chosen] = close_ups(&records)[..] else { panic!("expected one setup") };
    let makespan = |run: usize| records[run].value("makespan_ns").unwrap();
    let shorter = (0..16).filter(|&run| makespan(run) < makespan(chosen)).count();
    let longer = (0..16).filter(|&run| makespan(run) > makespan(chosen)).count();
    assert!(shorter <= 8 && longer <= 8, "{shorter} {longer}");
    runs[11].ending = common::ejected().ending;
    let records: Vec<Record> = runs.iter().map(Record::from).collect();
    assert_eq!(close_ups(&records), [11]);
}

#[test]
fn page_opens_with_a_verdict_that_names_tasks_that_never_ran() {
    let mut starving = common::run("bfs", 990, 4);
    for task in &mut starving.measures.tasks[4..6] {
        task.name = "cleaner".to_owned();
        task.account.run = Nanos::ZERO;
    }
    let (html, _) = of(&[common::run("fifo", 1000, 5), starving]);
    let verdict = between(&html, "<p class=\"outcome\">", "</p>");
    assert!(verdict.starts_with("bfs against fifo. Better: wakeup mean -20.0"), "{verdict}");
    assert!(verdict.contains(", idle while runnable -20.0"), "{verdict}");
    assert!(verdict.ends_with(" Under bfs, cleaner, cleaner never ran."), "{verdict}");
    assert!(
        html.find(verdict) < html.find("<svg class=\"plot") && html.find("<svg class=\"plot") < html.find("<table")
    );
    let (html, _) = of(&[common::run("fifo", 1000, 5), common::ejected()]);
    let verdict = between(&html, "<p class=\"outcome\">", "</p>");
    assert!(verdict.ends_with(" was ejected."), "{verdict}");
}

#[test]
fn verdict_judges_each_table_and_names_it() {
    let on = |machine: &str, scheduler: &str, us: u64| {
        let mut run = common::run(scheduler, 1000, us);
        run.tags.machine = machine.to_owned();
        run
    };
    let runs = [on("pu:1", "fifo", 50), on("pu:1", "bfs", 5), on("pu:2", "fifo", 5), on("pu:2", "bfs", 50)];
    let records: Vec<Record> = runs.iter().map(Record::from).collect();
    let titles: Vec<String> = report::content(&records).tables.iter().map(|table| table.title.clone()).collect();
    assert_eq!(titles.len(), 2, "{titles:?}");
    let (html, _) = of(&runs);
    let verdicts: Vec<&str> =
        html.split("<p class=\"outcome\">").skip(1).map(|p| p.split("</p>").next().unwrap()).collect();
    let said = |title: &str| format!("<span class=\"quiet\">{title}</span><br>bfs against fifo. ");
    let [first, second] = verdicts[..] else { panic!("one for each table: {verdicts:?}") };
    assert!(first.starts_with(&(said(&titles[0]) + "Better: wakeup ")), "{first}");
    assert!(second.starts_with(&said(&titles[1])) && second.contains(" Worse: wakeup "), "{second}");
    let text = page::verdict(&page::Report { records: &records, ..page::Report::default() }).unwrap();
    assert!(text.contains(&format!(" {}: bfs against fifo. ", titles[1])), "{text}");
}
