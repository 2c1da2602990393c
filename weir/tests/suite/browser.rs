// SPDX-License-Identifier: GPL-2.0-only
//! HTML reports in a real browser: headless Chromium, controlled through its DevTools protocol. If none is installed,
//! these tests print a line and pass; `make deps` installs one on Debian.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const NAMES: [&str; 4] = ["chromium", "chromium-headless-shell", "chromium-browser", "google-chrome"];

/// With `--remote-debugging-pipe` the browser reads commands from descriptor 3 and writes answers to 4; the shell
/// maps them to 0 and 1.
const START: &str = r#"exec "$0" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
    --user-data-dir="$1" --remote-debugging-pipe 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null"#;

pub struct Browser {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    last: u64,
    session: Option<String>,
    /// Errors and console messages of the page, and its network requests.
    complaints: Vec<String>,
    /// Schemes of the addresses that the page may load.
    schemes: Vec<&'static str>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser with an empty page; `None` if no browser is installed.
    pub fn start() -> Option<Browser> {
        let works = |name: &&&str| {
            let version = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            version.is_ok_and(|status| status.success())
        };
        let Some(name) = NAMES.iter().find(works) else {
            skip::skip(format_args!("none of {} is installed", NAMES.join(", ")));
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", START, name]).arg(profile.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (to, from) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        let (last, session, complaints) = (0, None, Vec::new());
        let schemes = vec!["file:"];
        let mut browser = Browser { process, to, from, last, session, complaints, schemes, _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// The same browser, for a page whose workers have their script from the page itself: blob addresses are allowed.
    pub fn with_workers(mut self) -> Browser {
        self.schemes.push("blob:");
        self
    }

    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        write!(self.to, "{message}\0").unwrap();
        self.to.flush().unwrap();
        loop {
            let answer = self.next();
            if answer["id"] == json!(self.last) {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
        }
    }

    pub fn next(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).unwrap();
        bytes.pop();
        let message: Value = serde_json::from_slice(&bytes).expect("the browser must keep running");
        let params = &message["params"];
        let complaint = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => Some(params["exceptionDetails"].to_string()),
            Some("Runtime.consoleAPICalled") => Some(params["args"].to_string()),
            Some("Log.entryAdded") => Some(params["entry"].to_string()),
            Some("Network.requestWillBeSent") => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                let is_allowed = self.schemes.iter().any(|scheme| url.starts_with(scheme));
                (!is_allowed).then(|| format!("asks for {url}"))
            }
            _ => None,
        };
        self.complaints.extend(complaint);
        message
    }

    /// Opens a file in a window of this width in pixels.
    pub fn open(&mut self, file: &Path, width: u32) {
        let screen = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", screen);
        self.call("Page.navigate", json!({ "url": format!("file://{}", file.display()) }));
        while self.next()["method"] != "Page.loadEventFired" {}
        // The timeline of the first run is unpacked only after loading.
        self.run(
            "while (document.querySelector('.timeline') && !document.querySelector('[data-ready]')) await frame()",
        );
    }

    /// Evaluates statements and returns their result. `one` and `all` find elements, `frame` waits for the next
    /// animation frame.
    pub fn run(&mut self, statements: &str) -> Value {
        let expression = format!(
            "(async () => {{ const one = (s) => document.querySelector(s), all = (s) => [...document.querySelectorAll(s)];
              const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
              const key = async (element, key) => {{
                element.focus();
                element.dispatchEvent(new KeyboardEvent('keydown', {{ key, bubbles: true }}));
                await frame(); await frame();
              }};
              {statements} }})()"
        );
        let wish = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", wish);
        assert!(answer["exceptionDetails"].is_null(), "{statements}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    pub fn assert_quiet(&self) {
        assert!(self.complaints.is_empty(), "{:#?}", self.complaints);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Writes the page `a.html` for these schedulers and returns the JSON of the same runs.
fn page(directory: &Path, workload: &str, rest: &str) -> Value {
    std::fs::write(directory.join("load.json"), workload).unwrap();
    let line = format!("sim {rest} -m laptop-2c4t -w load.json --format json --report a.html");
    let words = line.split_whitespace();
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).current_dir(directory).args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

const LOAD: &str = r#"{ "tasks": {
    "even": { "instance": 6, "loop": 40, "run": 1000, "sleep": 1000 },
    "odd": { "instance": 3, "loop": 20, "run": 3000, "sleep": 500 } }, "global": { "duration": -1 } }"#;

#[test]
fn html_report_has_the_numbers_of_the_json_report() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let json = page(directory.path(), LOAD, "fifo bfs --seed 1");
    browser.open(&directory.path().join("a.html"), 1280);
    let rows = browser.run(
        "return Object.fromEntries(all('tr[data-key]').map((row) => [row.dataset.key,
           [...row.querySelectorAll('td')].map((cell) => cell.dataset.value ?? null)]))",
    );
    let runs = json["runs"].as_array().unwrap();
    assert!(rows.as_object().unwrap().len() > 25);
    for (key, shown) in rows.as_object().unwrap() {
        let wanted: Vec<Value> = runs
            .iter()
            .map(|run| {
                key.split('.')
                    .fold(run, |value, part| &value[part])
                    .as_u64()
                    .map_or(Value::Null, |n| json!(n.to_string()))
            })
            .collect();
        assert_eq!(shown, &json!(wanted), "{key}");
    }
    // The timeline shows the same run: marked intervals add up to the measure, the number of run intervals is that of
    // switches, and none overlap.
    let sums = browser.run(
        "const packed = Uint8Array.from(atob(one('#timeline-data-1').textContent), (c) => c.charCodeAt(0));
         const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
         const data = Timelines.model(await new Response(stream).arrayBuffer());
         const kernel = data.names.map(([, name]) => name.startsWith('['));
         const sum = (list) => list.reduce((all, value) => all + value, 0);
         return { idle: sum(data.bad.to.map((to, index) => to - data.bad.from[index])), unit: data.unit, end: data.end,
           intervals: sum(data.lanes.map((lane) => lane.task.filter((task) => !kernel[task]).length)),
           apart: data.lanes.every((lane) => lane.from.every((from, index) => !index || from >= lane.to[index - 1])),
           longest: data.longest[0].length, most: data.running.most }",
    );
    let run = &runs[1];
    assert_eq!(sums["idle"], run["idle_while_runnable_ns"]);
    assert_eq!(sums["intervals"], run["context_switches"]);
    assert_eq!(sums["end"], run["elapsed_ns"]);
    assert_eq!(sums["longest"], run["run_delay_ns"]["max"]);
    assert_eq!((&sums["unit"], &sums["apart"], &sums["most"]), (&json!(1), &json!(true), &json!(4)));
    browser.assert_quiet();
}

#[test]
fn html_timeline_shades_avoidable_idle_by_its_share_of_each_column() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let json = page(directory.path(), LOAD, "fifo bfs --seed 1");
    browser.open(&directory.path().join("a.html"), 1280);
    // The row is found by its description; its mean opacity over the whole run is the share.
    let shown = browser.run(
        "const canvas = one('#run-0 canvas'), density = devicePixelRatio; while (!one('#run-0 [data-ready]')) await frame();
         await frame(); const { left, top } = canvas.getBoundingClientRect();
         const says = (y) => {
           canvas.dispatchEvent(new PointerEvent('pointermove', { clientX: left + 400, clientY: top + y }));
           return /while a task waits that may run there/.test(one('#tip').textContent);
         };
         let y = 0; while (!says(y)) y++;
         const wide = Math.round((canvas.clientWidth - 98) * density);
         const { data } = canvas.getContext('2d').getImageData(96 * density, (y + 4) * density, wide, 1);
         let sum = 0; for (let index = 3; index < data.length; index += 4) sum += data[index];
         return Math.round(sum / wide / 255 * 1e6)",
    );
    let run = &json["runs"][0];
    let share = run["idle_while_runnable_ns"].as_f64().unwrap() / run["elapsed_ns"].as_f64().unwrap();
    let shown = shown.as_f64().unwrap() / 1e6;
    assert!(share > 0.002, "{share}: the run has avoidable idle time");
    // Half a step of 255 for each column.
    assert!((shown - share).abs() < 1.0 / 255.0, "shown {shown}, measured {share}");
    browser.assert_quiet();
}

#[test]
fn html_report_controls_work_by_pointer_and_keyboard() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    page(directory.path(), LOAD, "fifo bfs --seed 1");
    browser.open(&directory.path().join("a.html"), 1280);
    let mut holds = |statements: &str| assert_eq!(browser.run(statements), json!(true), "{statements}");
    // The explanation of a measure can be opened and closed.
    holds(
        "const button = one('[data-key=\"wakeup_latency_ns.p99\"] button.why');
         const row = document.getElementById(button.getAttribute('aria-controls'));
         const before = row.hidden; button.click(); const during = row.hidden; button.click();
         return before && !during && row.hidden && row.textContent.includes('wakeup_latency_ns.p99')",
    );
    holds(
        "const row = one('[data-key=\"run_delay_ns.p999\"]'), seen = () => row.getClientRects().length > 0;
         const before = seen(); one('[data-all]').click(); return !before && seen()",
    );
    // Arrow keys step through the values of a plot.
    holds(
        "const plot = one('.plot.wide'); await key(plot, 'ArrowRight'); const first = one('#tip').textContent;
         await key(plot, 'ArrowRight'); const second = one('#tip').textContent;
         return first.startsWith('fifo: p50 ') && second.startsWith('fifo: p90 ') && !one('#tip').hidden",
    );
    holds("await key(document.body, 'Escape'); return one('#tip').hidden");
    // A run can be chosen.
    holds(
        "const chooser = one('#run'); chooser.value = '1'; chooser.dispatchEvent(new Event('change'));
         while (!one('#run-1 [data-ready]')) await frame();
         return one('#run-0').hidden && !one('#run-1').hidden && one('#run-1 h3').textContent.startsWith('bfs')",
    );
    // The task table can be sorted by a column and searched.
    holds(
        "const names = () => all('#tasks-1 tbody td:nth-child(2)').map((cell) => cell.textContent);
         const head = all('#tasks-1 th')[1].querySelector('button'); head.click(); await frame();
         while (names().length <= 10) await frame();
         const up = names(); head.click(); await frame(); const down = names();
         const sorted = up.every((name, index) => !index || up[index - 1] <= name);
         return sorted && down[0] === up.at(-1) && all('#tasks-1 th')[1].ariaSort === 'descending'",
    );
    holds(
        "const search = one('[data-search=\"tasks-1\"]'); search.value = 'ODD';
         search.dispatchEvent(new Event('input')); await frame();
         const found = all('#tasks-1 tbody tr'); return found.length === 3 && found.every((row) => row.textContent.includes('odd'))",
    );
    // Timeline: buttons, keys, the longest waits, task search.
    holds(
        "const canvas = one('#run-1 canvas'), length = () => canvas.dataset.to - canvas.dataset.from;
         await frame(); const whole = length(); one('#run-1 [data-key=\"+\"]').click(); await frame(); await frame();
         const half = length(); for (let press = 0; press < 40; press++) await key(canvas, '+');
         const least = length(); await key(canvas, '0');
         return half === whole / 2 && least > 0 && least <= 1000 && length() === whole",
    );
    holds(
        "const canvas = one('#run-1 canvas'); await key(canvas, 'PageDown'); await key(canvas, 'n');
         return /on CPU 0\\nfrom/.test(one('#tip').textContent)",
    );
    holds(
        "const canvas = one('#run-1 canvas'); one('#run-1 .longest button').click(); await frame(); await frame();
         return canvas.dataset.to - canvas.dataset.from < 1e8 && one('#run-1 .longest').querySelectorAll('button').length === 8
           && all('#run-1 .longest button').length === 16",
    );
    // The timeline of the other run is beside it and shows the same span.
    holds(
        "const [own, other] = all('#run-1 canvas');
         const same = own.dataset.from === other.dataset.from && own.dataset.to === other.dataset.to;
         const beside = one('#beside'); beside.value = '-1'; beside.dispatchEvent(new Event('change')); await frame();
         return same && all('#run-1 canvas').length === 1 && all('#run-0 canvas').length === 1",
    );
    holds(
        "const { left, top } = one('#run-1 canvas').getBoundingClientRect();
         one('#run-1 canvas').dispatchEvent(new PointerEvent('pointermove', { clientX: left + 400, clientY: top + 45 }));
         return /of 4 CPUs run tasks at/.test(one('#tip').textContent)",
    );
    // The theme menu switches between a light and a dark page.
    holds(
        "const ground = () => getComputedStyle(document.body).backgroundColor, theme = one('#theme');
         const paint = (value) => { theme.value = value; theme.dispatchEvent(new Event('change')); return ground(); };
         return paint('light') === 'rgb(255, 255, 255)' && paint('dark') === 'rgb(21, 24, 28)'",
    );
    browser.assert_quiet();
}

#[test]
fn html_timeline_has_no_values_after_the_end_of_the_shorter_run() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let json = page(directory.path(), LOAD, "fifo vrq --seed 1");
    let [shorter, longer] = [0, 1].map(|run: usize| json["runs"][run]["elapsed_ns"].as_u64().unwrap());
    assert!(longer > shorter + shorter / 100, "{shorter} {longer}");
    browser.open(&directory.path().join("a.html"), 1280);
    // Each row is a run of equal texts from top to bottom, 10 pixels from the right edge.
    let shown = browser.run(
        "const canvas = one('#run-0 canvas'), { right, top, height } = canvas.getBoundingClientRect();
         while (all('#run-0 [data-ready]').length < 2) await frame();
         await frame(); await frame();
         const texts = (x) => [...new Set(Array.from({ length: Math.floor(height) }, (_, y) => {
           canvas.dispatchEvent(new PointerEvent('pointermove', { clientX: x, clientY: top + y }));
           return one('#tip').hidden ? '' : one('#tip').textContent;
         }))].filter(Boolean);
         return [texts(right - 6), texts(right - 400).length, Number(canvas.dataset.to)]",
    );
    assert_eq!(shown[0], json!(["after the end of the run"]));
    assert!(shown[1].as_u64() > Some(8), "rows of a chain, steps, queues and CPUs: {shown}");
    assert_eq!(shown[2].as_u64(), Some(longer));
    browser.assert_quiet();
}

#[test]
fn html_report_with_two_timelines_has_the_help_once_and_the_notes_of_both() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    page(directory.path(), LOAD, "fifo kernel --seed 1");
    browser.open(&directory.path().join("a.html"), 1280);
    let shown = browser.run(
        "while (all('#run-0 [data-ready]').length < 2) await frame();
         const seen = all('#run-0 .timeline p.quiet').filter((text) => text.getClientRects().length);
         return [seen.map((text) => text.textContent.slice(0, 14)),
           all('#run-0 > details > summary').map((head) => head.textContent.split(': ')[0])]",
    );
    assert_eq!(shown[0], json!(["Drag to move; ", "The rows of qu", "Queues are not"]));
    let names = shown[1].as_array().unwrap();
    assert!(!names.is_empty() && names.iter().all(|name| name.as_str().unwrap().starts_with("fifo on")), "{shown}");
    browser.assert_quiet();
}

#[test]
fn html_report_fits_a_380_pixel_window() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    page(directory.path(), LOAD, "kernel fifo bfs vrq --seeds 2");
    browser.open(&directory.path().join("a.html"), 380);
    let over = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert_eq!(browser.run(over), json!(0), "an element is wider than the window");
    let seen =
        "return all('.plot').filter((plot) => plot.getClientRects().length).every((plot) => plot.matches('.narrow'))";
    assert_eq!(browser.run(seen), json!(true));
    browser.assert_quiet();
}

#[test]
fn html_in_task_names_is_not_executed() {
    let Some(mut browser) = Browser::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let names = [
        "</script><script>document.title='owned'</script>",
        "\"><img src=x onerror=document.title='owned'>",
        "<svg onload=document.title='owned'>",
    ];
    let tasks: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!({ "loop": 5, "run": 1000, "sleep": 1000 }))).collect();
    let workload = json!({ "tasks": tasks, "global": { "duration": -1 } }).to_string();
    page(directory.path(), &workload, "fifo --seed 1");
    browser.open(&directory.path().join("a.html"), 1280);
    let shown = browser.run(
        "while (all('.tasks tbody tr').length < 3) await frame();
         one('.longest').closest('details').open = true; await frame();
         return [document.title, all('img, svg[onload]').length, all('script').length,
           all('.tasks tbody td:nth-child(2)').map((cell) => cell.textContent)]",
    );
    assert!(!shown[0].as_str().unwrap().contains("owned"), "{shown}");
    assert_eq!((&shown[1], &shown[2]), (&json!(0), &json!(3)), "only the two data elements and the page's script");
    for name in names {
        assert!(shown[3].as_array().unwrap().iter().any(|cell| cell == name), "{name} is not shown as it is: {shown}");
    }
    browser.assert_quiet();
}
