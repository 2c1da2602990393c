// SPDX-License-Identifier: GPL-2.0-only
//! The playground has the same results as the command line: its library, called as a function, and the page that `make
//! playground` builds, in a browser. The tests of the page need it (`make test-playground`) and are skipped without.

use crate::browser::Browser;
use playground::{Session, message};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Environment variable with the path of the page.
const PAGE: &str = "WEIR_PLAYGROUND";

/// The page; `None` if there is none, which the skipped test says.
fn page() -> Option<PathBuf> {
    let path = env::var_os(PAGE).map(PathBuf::from);
    if path.is_none() {
        skip::skip(format_args!("{PAGE} names no page: make test-playground builds and tests it"));
    }
    path
}

/// A browser for the page, which starts workers.
fn browser() -> Option<Browser> {
    Browser::start().map(Browser::with_workers)
}

/// A run, in the words of a link and of the command line.
#[derive(Clone, Debug)]
struct Combination {
    schedulers: Vec<String>,
    machine: String,
    workload: String,
    seed: String,
    duration: Option<String>,
    without: Option<String>,
}

impl Combination {
    fn new(scheduler: &str, machine: &str, workload: &str, seed: u64, duration: &str) -> Combination {
        Combination {
            schedulers: vec![scheduler.to_owned()],
            machine: machine.to_owned(),
            workload: workload.to_owned(),
            seed: seed.to_string(),
            duration: Some(duration.to_owned()),
            without: None,
        }
    }

    /// Reads the part of a link after `#`.
    fn of_link(hash: &str) -> Combination {
        let decode = |text: &str| text.replace("%2C", ",").replace("%5C", "\\");
        let mut read = Combination::new("", "", "", 0, "");
        (read.schedulers, read.duration) = (Vec::new(), None);
        for pair in hash.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value);
            match key {
                "s" => read.schedulers.push(value),
                "m" => read.machine = value,
                "w" => read.workload = value,
                "seed" => read.seed = value,
                "for" => read.duration = Some(value),
                "without" => read.without = Some(value),
                "run" => {}
                other => panic!("{hash}: {other}"),
            }
        }
        read
    }

    fn to_link(&self) -> String {
        let encode = |text: &str| text.replace('\\', "%5C").replace(',', "%2C").replace('+', "%2B").replace(' ', "%20");
        let mut parts: Vec<String> = self.schedulers.iter().map(|name| format!("s={}", encode(name))).collect();
        parts.push(format!("m={}&w={}&seed={}", encode(&self.machine), encode(&self.workload), self.seed));
        parts.extend(self.duration.iter().map(|time| format!("for={time}")));
        parts.extend(self.without.iter().map(|effects| format!("without={}", encode(effects))));
        format!("#{}&run", parts.join("&"))
    }

    /// The runs that the command line makes of it, in a directory with the files that it names.
    fn of_command_line(&self, directory: &Path) -> Vec<Value> {
        let Combination { schedulers, machine, workload, seed, duration, without } = self;
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.current_dir(directory).arg("sim").args(schedulers);
        command.args(["-m", machine, "-w", workload, "--seed", seed, "--format", "json"]);
        duration.iter().for_each(|time| _ = command.args(["--for", time]));
        without.iter().for_each(|effects| _ = command.args(["--without", effects]));
        let output = command.output().unwrap();
        assert!(output.status.code() < Some(2), "{self:?}: {}", String::from_utf8_lossy(&output.stderr));
        let mut document: Value = serde_json::from_slice(&output.stdout).unwrap();
        document["runs"].as_array_mut().unwrap().drain(..).collect()
    }
}

/// Combinations of schedulers, machines, workloads and seeds that are quick to simulate.
fn combinations() -> Vec<Combination> {
    let schedulers = ["kernel", "fifo", "bfs@0.360", "muqss,rqshare=0", "cfs", "nix@groups", "stride"];
    let places =
        [("laptop-2c4t", "video"), ("pu:3", "preempt-mix"), ("server-64", "periodic-64"), ("desktop-4c", "lock")];
    let mut all = Vec::new();
    for (number, scheduler) in (0..).zip(schedulers) {
        for (machine, workload) in places {
            all.push(Combination::new(scheduler, machine, workload, number % 3, "60ms"));
        }
    }
    all.push(Combination::new("bfs", "laptop-2c4t", "video+build,nice=19,jobs=2", 1, "100ms"));
    all
}

/// Links of the course to the playground, with the page that contains each.
fn course() -> Vec<(String, Combination)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/course");
    let mut all = Vec::new();
    let mut pages: Vec<PathBuf> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    for path in pages {
        let text = fs::read_to_string(&path).unwrap();
        let links = text.split("../../playground/index.html#").skip(1);
        let links = links.map(|link| Combination::of_link(link.split(')').next().unwrap()));
        all.extend(links.map(|link| (text.clone(), link)));
    }
    assert!(all.len() >= 12, "{} links", all.len());
    all
}

/// A directory with the workloads of a page of the course.
fn files_of(text: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for block in text.split("\n```json file=").skip(1) {
        let (name, rest) = block.split_once('\n').unwrap();
        fs::write(directory.path().join(name), rest.split("\n```").next().unwrap().to_owned() + "\n").unwrap();
    }
    directory
}

fn ask(session: &mut Session, request: &Value, files: &[&[u8]]) -> (Value, Vec<u8>) {
    let answer = session.answer(&message::compose(&request.to_string(), &files.concat()), &mut |_, _| ());
    let (text, bytes) = message::split(&answer).unwrap();
    (serde_json::from_str(text).unwrap(), bytes.to_vec())
}

#[test]
fn playground_library_returns_the_run_of_the_command_line() {
    let build = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/recorded/build.weir")).unwrap();
    let empty = tempfile::tempdir().unwrap();
    let all = combinations();
    // Prime to the number of places, so that each place occurs.
    let some: Vec<&Combination> = all[..all.len() - 1].iter().step_by(5).chain(all.last()).collect();
    let occur = |of: fn(&Combination) -> &str| some.iter().map(|one| of(one)).collect::<BTreeSet<_>>();
    let places = ["desktop-4c", "laptop-2c4t", "pu:3", "server-64"];
    assert!(occur(|one| &one.machine).into_iter().eq(places) && occur(|one| &one.schedulers[0]).len() >= 6, "{some:?}");
    assert!(some.iter().any(|one| one.workload.contains('+')), "{some:?}");
    for one in some {
        let scheduler = &one.schedulers[0];
        let policy = policies::find(scheduler.split(['@', ',']).next().unwrap());
        let mut files: Vec<(String, &[u8])> = vec![("build".to_owned(), &build)];
        if let Some(policy) = policy {
            files.push((format!("{}.bpf.o", policy.name), policy.object));
            files.push((format!("{}.toml", policy.name), policy.profile.as_bytes()));
        }
        let request = json!({
            "op": "run", "scheduler": scheduler, "machine": one.machine, "workload": one.workload,
            "seed": one.seed.parse::<u64>().unwrap(), "for": one.duration, "timeline": true,
            "files": files.iter().map(|(name, file)| json!([name, file.len()])).collect::<Vec<_>>(),
        });
        let bytes: Vec<&[u8]> = files.iter().map(|(_, file)| *file).collect();
        let (answer, timeline) = ask(&mut Session::default(), &request, &bytes);
        let wanted = one.of_command_line(empty.path());
        assert_eq!(answer["run"], wanted[0], "{one:?}: {}", answer["error"]);
        assert!(timeline.len() > 100, "{one:?}");
    }
}

#[test]
fn playground_page_prints_the_hashes_of_the_command_line() {
    let (Some(page), Some(mut browser)) = (page(), browser()) else { return };
    let empty = tempfile::tempdir().unwrap();
    let mut all: Vec<(Vec<String>, Combination)> = Vec::new();
    let hashes = |runs: &[Value]| runs.iter().map(|run| run["log_hash"].as_str().unwrap().to_owned()).collect();
    for one in combinations() {
        all.push((hashes(&one.of_command_line(empty.path())), one));
    }
    for (text, one) in course() {
        all.push((hashes(&one.of_command_line(files_of(&text).path())), one));
    }
    assert!(all.len() >= 40, "{}", all.len());
    browser.open(&page, 1280);
    for (wanted, one) in all {
        let link = one.to_link();
        // A link to the same page is followed without loading it again.
        browser.run(&format!("one('#hash').textContent = ''; location.hash = ''; location.hash = {link:?}; return 0"));
        let shown = browser.run(
            "while (!one('#hash').textContent && !one('#status').matches('.failed')) await frame();
             return [one('#status').textContent, ...all('.lane code').map((code) => code.textContent)]",
        );
        assert_eq!(shown.as_array().unwrap()[1..], json!(wanted).as_array().unwrap()[..], "{link}: {}", shown[0]);
    }
    browser.assert_quiet();
}

/// Calls `start` and waits for the end of the run in the page that it starts.
const FINISH: &str = "const finish = async (start) => {
    const before = document.documentElement.dataset.runs; start();
    while (document.documentElement.dataset.runs === before) await frame(); await frame(); await frame(); };";

#[test]
fn playground_form_runs_explains_and_keeps_its_state_in_the_link() {
    let (Some(page), Some(mut browser)) = (page(), browser()) else { return };
    browser.open(&page, 1280);
    browser.run("while (!('ready' in document.documentElement.dataset)) await frame()");
    let mut holds = |statements: &str| assert_eq!(browser.run(statements), json!(true), "{statements}");
    holds(
        "const set = (id, value) => { one(id).value = value; one(id).dispatchEvent(new Event('change')); };
         set('#for', '200ms'); set('#shape', 'pu:2');
         return one('#command').textContent === 'weir sim bfs kernel --machine pu:2 --workload video --seed 0 --for 200ms'",
    );
    holds(&format!(
        "{FINISH} await finish(() => one('#go').click());
         return all('.lane canvas').length === 2 && one('#verdict').textContent.startsWith('kernel against bfs. ')
           && all('#report tr[data-key]').length > 25 && /&run$/.test(location.hash)"
    ));
    // Timelines show the same span.
    holds(
        "const [a, b] = all('.lane canvas'); await key(a, '+'); await frame();
         return a.dataset.to - a.dataset.from === 1e8 && a.dataset.from === b.dataset.from && a.dataset.to === b.dataset.to",
    );
    // A wait is explained, by pointer and by keys.
    holds(
        "one('.lane .longest button').click(); while (one('#why').hidden) await frame();
         return /waited .* for a CPU/.test(one('#why pre').textContent)",
    );
    holds(
        "one('#why').hidden = true; const canvas = one('.lane canvas'); await key(canvas, '0'); await key(canvas, 'PageDown');
         for (let press = 0; one('#why').hidden && press < 300; press++) { await key(canvas, 'n'); await key(canvas, 'Enter');
           await frame(); await frame(); }
         return !one('#why').hidden",
    );
    // An edited workload is in the link; a run can be kept beside the next.
    holds(&format!(
        "one('#pin').click(); const field = one('#tasks input'); field.value = '3';
         field.dispatchEvent(new Event('change')); {FINISH} await finish(() => one('#go').click());
         return all('.lane').length === 3 && location.hash.includes('json=') && one('#json').value.includes('\"instance\": 3')"
    ));
    let edited = browser.run("return [location.hash, one('#hash').textContent]");
    browser.run(&format!(
        "location.hash = '#s=fifo'; await frame(); one('#hash').textContent = ''; location.hash = {}; return 0",
        edited[0]
    ));
    let again = browser.run("while (!one('#hash').textContent) await frame(); return one('#hash').textContent");
    assert_eq!(again, edited[1]);
    // Errors name the place; a run can be cancelled.
    let mut holds = |statements: &str| assert_eq!(browser.run(statements), json!(true), "{statements}");
    holds(&format!(
        "one('#composition').value = 'vidio'; one('#composition').dispatchEvent(new Event('change'));
         {FINISH} await finish(() => one('#go').click()); return one('#status').matches('.failed') && one('#status').textContent.includes('vidio')"
    ));
    holds(&format!(
        "{FINISH} location.hash = '#s=bfs&m=server-512&w=build&seed=1&run';
         while (one('#cancel').disabled) await frame(); await finish(() => one('#cancel').click());
         return one('#status').textContent === 'Cancelled'"
    ));
    browser.assert_quiet();
}

#[test]
fn playground_link_is_followed_during_a_run_and_refused_if_damaged() {
    let (Some(page), Some(mut browser)) = (page(), browser()) else { return };
    browser.open(&page, 1280);
    browser.run("while (!('ready' in document.documentElement.dataset)) await frame()");
    let mut holds = |statements: &str| assert_eq!(browser.run(statements), json!(true), "{statements}");
    // A text that is edited replaces a composition, which has no text of its own.
    holds(
        "location.hash = '#s=fifo&m=pu:2&w=./wakes.json%2Ccount=2&seed=0&for=5ms'; await frame(); await frame();
         const before = one('#composition').value === './wakes.json,count=2' && one('#editor').hidden;
         one('#json').value = '{ \"tasks\": { \"a\": { \"run\": 1000 } } }'; one('#json').dispatchEvent(new Event('change'));
         return before && one('#composition').value === '' && !one('#editor').hidden
           && one('#command').textContent.includes('--workload ./edited.json')",
    );
    // And a composition hides the edited text, which is no part of its link.
    holds(
        "one('#composition').value = 'video,count=2'; one('#composition').dispatchEvent(new Event('change'));
         await frame(); await frame();
         return one('#editor').hidden && !location.hash.includes('json=') && location.hash.includes('&w=video%2Ccount')",
    );
    let long =
        "location.hash = '#s=bfs&m=server-512&w=build&seed=1&run'; while (one('#cancel').disabled) await frame();";
    holds(&format!(
        "{long} location.hash = '#s=fifo&m=pu:2&w=video&seed=0&for=50ms&run';
         while (!one('#hash').textContent) await frame();
         return one('.lane h3').textContent.startsWith('fifo on pu:2') && one('#command').textContent.includes('sim fifo')"
    ));
    holds(&format!(
        "{FINISH} {long} await finish(() => one('#cancel').click());
         one('.lane .longest button').click(); for (let wait = 0; one('#why').hidden && wait < 900; wait++) await frame();
         return one('#why h3').textContent === 'No explanation'
           && one('#why pre').textContent === 'this run is over; run it again'"
    ));
    for damaged in ["s=%E0%A4%A", "s=bfs&json=@@", "s=bfs&json=AAAA"] {
        holds(&format!(
            "location.hash = '#s=stride&w=video'; await frame(); await frame(); location.hash = '#{damaged}';
             for (let wait = 0; !one('#status').matches('.failed') && wait < 900; wait++) await frame();
             const said = one('#status').textContent; one('#status').classList.remove('failed');
             return said.startsWith('This link is damaged: ') && one('#command').textContent.includes('sim stride ')"
        ));
    }
    browser.assert_quiet();
}

/// Presses and releases the mouse button.
fn click(browser: &mut Browser, [x, y]: [f64; 2]) {
    for kind in ["mousePressed", "mouseReleased"] {
        let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
        browser.call("Input.dispatchMouseEvent", event);
    }
}

#[test]
fn playground_click_on_a_row_label_explains_nothing() {
    let (Some(page), Some(mut browser)) = (page(), browser()) else { return };
    browser.open(&page, 1280);
    browser.run("while (!('ready' in document.documentElement.dataset)) await frame()");
    // The row of the longest chain of causes, in the second half of the run.
    let place = browser.run(
        "location.hash = '#s=bfs&m=pu:2&w=video&seed=0&for=200ms&run'; while (!one('#hash').textContent) await frame();
         const canvas = one('.lane canvas'); await key(canvas, '+'); canvas.scrollIntoView({ block: 'center' });
         await frame(); await frame(); const { left, top } = canvas.getBoundingClientRect(); return [left, top + 26]",
    );
    let [left, y] = [0, 1].map(|index: usize| place[index].as_f64().unwrap());
    let explained = |frames: u32| {
        format!(
            "for (let wait = 0; one('#why').hidden && wait < {frames}; wait++) await frame(); return !one('#why').hidden"
        )
    };
    click(&mut browser, [left + 20.0, y]);
    assert_eq!(browser.run(&explained(60)), json!(false), "a label was clicked");
    click(&mut browser, [left + 500.0, y]);
    assert_eq!(browser.run(&explained(900)), json!(true), "the chain was clicked");
    browser.assert_quiet();
}

#[test]
fn playground_runs_dropped_objects_and_fits_a_380_pixel_window() {
    let (Some(page), Some(mut browser)) = (page(), browser()) else { return };
    browser.open(&page, 380);
    browser.run("while (!('ready' in document.documentElement.dataset)) await frame()");
    let object: Vec<u8> = policies::find("fifo").unwrap().object.to_vec();
    let shown = browser.run(&format!(
        "const file = new File([new Uint8Array({object:?})], 'mine.bpf.o');
         const given = new DataTransfer(); given.items.add(file);
         const field = one('#files'); field.files = given.files; field.dispatchEvent(new Event('change'));
         while (!one('#dropped').textContent) await frame();
         one('#for').value = '100ms'; one('#for').dispatchEvent(new Event('change'));
         {FINISH} await finish(() => one('#go').click());
         return [one('#hash').textContent, one('#command').textContent]"
    ));
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("mine.bpf.o"), &object).unwrap();
    let one = Combination::new("./mine.bpf.o", "laptop-2c4t", "video", 0, "100ms");
    assert_eq!(shown[0], one.of_command_line(directory.path())[0]["log_hash"], "{shown}");
    let over = browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth");
    assert_eq!(over, json!(0), "an element is wider than the window");
    let unnamed = browser.run(
        "return all('button, input, select, textarea').filter((field) => !field.labels?.length
           && !field.getAttribute('aria-label') && !field.textContent.trim()).map((field) => field.outerHTML)",
    );
    assert_eq!(unnamed, json!([]), "fields without a name");
    browser.assert_quiet();
}

#[test]
fn slides_of_the_course_are_turned_by_keys_and_none_is_too_wide() {
    let (Some(page), Some(mut browser)) = (page(), Browser::start()) else { return };
    browser.open(&page.with_file_name("slides.html"), 1280);
    let mut holds = |statements: &str| assert_eq!(browser.run(statements), json!(true), "{statements}");
    holds(
        "await key(document.body, 'ArrowRight');
         return all('section.shown').length === 1 && one('.shown h1').textContent.startsWith('Lesson 1: ')
           && one('#place').textContent === `2 / ${all('section').length}`",
    );
    holds("await key(document.body, 'Home'); await key(document.body, 'ArrowLeft'); return location.hash === '#1'");
    holds(
        "all('.shown a').at(-1).click(); await frame(); await frame();
         return one('.shown h1').textContent.startsWith('Lesson 8: ')",
    );
    let slides = browser.run("return all('section').length").as_u64().unwrap();
    assert!(slides > 48, "eight lessons of at least six slides");
    for slide in 1..=slides {
        let text = "one('.shown').scrollWidth <= innerWidth && all('.shown a').every((link) =>
            /^(index.html)?#/.test(link.getAttribute('href')) || link.protocol === 'https:')";
        let statements = format!("location.hash = '{slide}'; await frame(); await frame(); return {text}");
        assert_eq!(browser.run(&statements), json!(true), "slide {slide}");
    }
    browser.assert_quiet();
}
