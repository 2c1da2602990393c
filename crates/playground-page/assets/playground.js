// SPDX-License-Identifier: GPL-2.0-only
// The playground: the form, the link that holds its state, the workers that simulate, and what they answer.
"use strict";
(() => {
  const { all, one, time, tell, quiet } = Page;
  const text = (id) => document.getElementById(id).textContent;
  const inflate = (stream) => new Response(stream.pipeThrough(new DecompressionStream("deflate-raw"))).arrayBuffer();
  const deflate = (stream) => new Response(stream.pipeThrough(new CompressionStream("deflate-raw"))).arrayBuffer();
  const unpack = (id) => bytesOf(text(`packed-${id}`)).then((packed) => inflate(new Blob([packed]).stream()));
  const bytesOf = async (encoded) => {
    const letters = atob(encoded);
    const bytes = new Uint8Array(letters.length);
    for (let index = 0; index < bytes.length; index++) bytes[index] = letters.charCodeAt(index);
    return bytes;
  };
  const status = (words, failed = false) => {
    one("#status").textContent = words;
    one("#status").classList.toggle("failed", failed);
  };

  // --- Workers. An engine is one worker; a call that fails, is cancelled, or comes after the end of the worker rejects.
  let [module, source] = [null, null];
  class Engine {
    constructor() {
      this.worker = new Worker(source);
      this.worker.postMessage({ module });
      Object.assign(this, { calls: new Map(), last: 0, ended: false });
      this.worker.onmessage = ({ data: { call, answer, error, now, end } }) => {
        const { resolve, reject, progress } = this.calls.get(call);
        if (now !== undefined) return progress?.(now, end);
        this.calls.delete(call);
        if (error) return reject(new Error(error));
        const length = new DataView(answer).getUint32(0, true);
        const json = JSON.parse(new TextDecoder().decode(new Uint8Array(answer, 4, length)));
        if (json.error) reject(new Error(json.error)); else resolve({ json, bytes: answer.slice(4 + length) });
      };
      this.worker.onerror = (event) => this.calls.forEach(({ reject }) => reject(new Error(event.message)));
    }

    call(json, { files = [], fresh = false, keep = false, progress } = {}) {
      if (this.ended) return Promise.reject(new Error("this run is over; run it again"));
      const head = new TextEncoder().encode(JSON.stringify(json));
      const request = new Uint8Array(4 + head.length + files.reduce((sum, file) => sum + file.length, 0));
      new DataView(request.buffer).setUint32(0, head.length, true);
      request.set(head, 4);
      let at = 4 + head.length;
      for (const file of files) { request.set(file, at); at += file.length; }
      return new Promise((resolve, reject) => {
        this.calls.set(++this.last, { resolve, reject, progress });
        this.worker.postMessage({ call: this.last, request: request.buffer, fresh, keep }, [request.buffer]);
      });
    }

    end() {
      this.ended = true;
      this.worker.terminate();
      this.calls.forEach(({ reject }) => reject(new Error("cancelled")));
      this.calls.clear();
    }
  }

  // --- Files: those of the page, and the user's own.
  const shipped = new Map(), own = new Map();
  let [catalogue, manifest] = [null, null];
  const find = (name) => own.get(name) ?? shipped.get(name);
  const EDITED = "./edited.json";

  // --- The form.
  const lanes = all("fieldset.scheduler").map((element) => ({ element, tunables: new Map() }));
  const option = (value, label = value) => Object.assign(document.createElement("option"), { value, textContent: label });
  const edited = () => one("#json").dataset.edited === "yes";

  const specOf = ({ element, tunables }) => {
    const policy = one(".policy", element).value;
    if (!policy) return "";
    const preset = one(".preset", element).value;
    return [policy + (preset ? `@${preset}` : ""), ...[...tunables].map(([key, value]) => `${key}=${value}`)].join(",");
  };
  const known = (policy) => catalogue.schedulers.find(({ name }) => name === policy);

  // Variants and tunables of the chosen policy.
  const drawLane = (lane) => {
    const { element, tunables } = lane;
    const scheduler = known(one(".policy", element).value);
    const preset = one(".preset", element);
    const before = preset.value;
    preset.replaceChildren(option("", "default"), ...(scheduler?.presets ?? []).map(({ name, doc }) =>
      option(name, doc ? `${name}: ${doc}` : name)));
    preset.value = (scheduler?.presets ?? []).some(({ name }) => name === before) ? before : "";
    preset.disabled = !scheduler?.presets.length;
    const isKernel = one(".policy", element).value === "kernel";
    one(".summary", element).textContent = scheduler?.summary ?? (isKernel ? "the default scheduler of Linux (EEVDF)" : "");
    for (const key of [...tunables.keys()]) if (!scheduler?.tunables.some(({ name }) => name === key)) tunables.delete(key);
    const fields = (scheduler?.tunables ?? []).map(({ name, doc, bool, range }) => {
      const label = document.createElement("label");
      const field = document.createElement(bool ? "select" : "input");
      if (bool) field.append(option("", "default"), option("true"), option("false"));
      else Object.assign(field, { size: 10, placeholder: range ? `${range[0]} to ${range[1]}` : "default" });
      field.value = tunables.get(name) ?? "";
      field.addEventListener("change", () => {
        if (field.value) tunables.set(name, field.value); else tunables.delete(name);
        changed();
      });
      const says = document.createElement("span");
      Object.assign(says, { className: "quiet", textContent: doc });
      label.append(`${name} `, field, says);
      return label;
    });
    one(".tunables", element).replaceChildren(...fields);
    one("details", element).hidden = !fields.length;
  };

  const setLane = (lane, spec) => {
    const [head, ...pairs] = spec.split(",");
    const policies = one(".policy", lane.element);
    const [policy, preset] = head.endsWith(".o") ? [head, ""] : head.split("@");
    if (![...policies.options].some(({ value }) => value === policy)) policies.append(option(policy));
    policies.value = policy;
    lane.tunables = new Map(pairs.map((pair) => pair.split(/=(.*)/s).slice(0, 2)));
    drawLane(lane);
    one(".preset", lane.element).value = preset ?? "";
  };

  const machine = () => one("#shape").value.trim() || one("#machine").value;
  const composition = () => one("#composition").value.trim();
  const workload = () => composition() || (edited() ? EDITED : one("#workload").value);
  const showText = () => {
    const chosen = catalogue.workloads.find(({ name }) => name === one("#workload").value);
    const field = one("#json");
    field.dataset.edited = "";
    field.value = chosen?.text ?? "";
    drawTable();
  };
  const drawTable = () => WorkloadForm.draw(one("#tasks tbody"), one("#json").value, edit);
  const setText = (json) => {
    Object.assign(one("#json"), { value: json }).dataset.edited = "yes";
    one("#json-error").hidden = drawTable();
    one("#json-error").textContent = "This is not JSON. The run will say where.";
  };
  const edit = (json) => {
    one("#composition").value = "";
    setText(json);
    changed();
  };

  const summaries = () => {
    // The text is that of the chosen workload: a composition has none.
    const listed = catalogue.workloads.find(({ name }) => name === one("#workload").value);
    one("#editor").hidden = listed?.text === undefined || composition() !== "";
    const chosen = catalogue.machines.find(({ name }) => name === machine());
    one("#machine-summary").textContent = chosen?.summary ?? "";
    const load = catalogue.workloads.find(({ name }) => name === workload());
    one("#workload-summary").textContent = workload() === EDITED ? "edited here" : load?.summary ?? "";
  };

  // --- The state, as the link holds it.
  const state = () => ({
    schedulers: lanes.map(specOf).filter(Boolean), machine: machine(), workload: workload(),
    seed: Number(one("#seed").value) || 0, seeds: Math.max(1, Number(one("#seeds").value) || 1),
    duration: one("#for").value.trim(), without: one("#without").value.trim(),
  });
  const encode = encodeURIComponent;
  let written = "";
  const link = async (run) => {
    const { schedulers, machine, workload, seed, seeds, duration, without } = state();
    const parts = schedulers.map((spec) => `s=${encode(spec)}`);
    parts.push(`m=${encode(machine)}`, `w=${encode(workload)}`, `seed=${seed}`);
    if (seeds > 1) parts.push(`seeds=${seeds}`);
    if (duration) parts.push(`for=${encode(duration)}`);
    if (without) parts.push(`without=${encode(without)}`);
    if (workload === EDITED) {
      const packed = new Uint8Array(await deflate(new Blob([one("#json").value]).stream()));
      let letters = "";
      for (const byte of packed) letters += String.fromCharCode(byte);
      parts.push(`base=${encode(one("#workload").value)}`, `json=${encode(btoa(letters))}`);
    }
    if (run) parts.push("run");
    return `#${parts.join("&")}`;
  };
  let asked = 0;
  const remember = async (run) => {
    const own = ++asked;
    const address = await link(run);
    // Packing an edited text takes time, in which something else was changed.
    if (own !== asked) return;
    written = address;
    // A page from a file may not be allowed to change its history.
    try { history.replaceState(null, "", written); } catch { location.hash = written; }
  };

  const quote = (word) => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
  const commandLine = () => {
    const { schedulers, machine, workload, seed, seeds, duration, without } = state();
    const words = ["weir", "sim", ...schedulers, "--machine", machine, "--workload", workload];
    words.push(...seeds > 1 ? ["--seeds", String(seeds)] : ["--seed", String(seed)]);
    if (duration) words.push("--for", duration);
    if (without) words.push("--without", without);
    return words.map(quote).join(" ");
  };
  const changed = () => {
    summaries();
    one("#command").textContent = commandLine();
    remember(false);
  };

  // What a link says; throws if it is damaged.
  const parse = async (hash) => {
    const given = new Map(), schedulers = [];
    for (const part of hash.slice(1).split("&").filter(Boolean)) {
      const [key, value = ""] = part.split(/=(.*)/s);
      if (key === "s") schedulers.push(decodeURIComponent(value)); else given.set(key, decodeURIComponent(value));
    }
    if (!given.has("json")) return { given, schedulers, json: null };
    const packed = await bytesOf(given.get("json"));
    return { given, schedulers, json: new TextDecoder().decode(await inflate(new Blob([packed]).stream())) };
  };
  const show = ({ given, schedulers, json }) => {
    const names = (id) => [...one(id).options].map(({ value }) => value);
    const choose = (id, free, value) => {
      const listed = names(id).includes(value);
      if (listed) one(id).value = value;
      one(free).value = listed ? "" : value;
    };
    setLane(lanes[0], schedulers[0] ?? "bfs");
    setLane(lanes[1], schedulers[1] ?? (schedulers.length || given.size ? "" : "kernel"));
    choose("#machine", "#shape", given.get("m") ?? "laptop-2c4t");
    const load = given.get("w") ?? "video";
    choose("#workload", "#composition", load === EDITED ? given.get("base") ?? "video" : load);
    one("#seed").value = given.get("seed") ?? "0";
    one("#seeds").value = given.get("seeds") ?? "1";
    one("#for").value = given.get("for") ?? "";
    one("#without").value = given.get("without") ?? "";
    showText();
    if (json !== null) setText(json);
    summaries();
    one("#command").textContent = commandLine();
  };
  // Fills in the form from the link. Returns whether it asks for a run; a damaged link does not, and leaves the form.
  const read = async () => {
    const { hash } = location;
    try {
      const said = await parse(hash);
      // Another link was followed meanwhile.
      if (location.hash !== hash) return false;
      show(said);
      return said.given.has("run");
    } catch (error) {
      status(`This link is damaged: ${error.message}`, true);
      return false;
    }
  };

  // --- A run.
  let [clerk, engines, pinned, running] = [null, [], [], false];
  let drawn = new AbortController();

  const filesOf = (spec, load) => {
    const policy = spec.split(/[@,]/)[0];
    const stem = policy.replace(/(\.bpf)?\.o$/, "");
    const words = load.split(/[+,=]/);
    const names = [stem === policy ? `${policy}.bpf.o` : policy, `${stem}.toml`, machine(), ...words];
    return [...new Set(names)].filter((name) => find(name)).map((name) => [name, find(name)]);
  };

  const request = (spec, seed, timeline) => {
    const { workload, machine, duration, without } = state();
    const named = filesOf(spec, workload);
    if (workload === EDITED) named.push([EDITED, new TextEncoder().encode(one("#json").value)]);
    const json = {
      op: "run", scheduler: spec, machine, workload, seed, timeline, files: named.map(([name, file]) => [name, file.length]),
    };
    if (duration) json.for = duration;
    if (without) json.without = without.split(",").map((word) => word.trim());
    return { json, files: named.map(([, file]) => file) };
  };

  const busy = (is) => {
    running = is;
    one("#go").disabled = is;
    one("#cancel").disabled = !is;
    one("#progress").hidden = !is;
    one("#pin").disabled = is || !engines.length;
  };

  // Runs of one scheduler: the one whose events are shown, then those of the other seeds.
  const simulate = async (spec, engine, seed, others, advance) => {
    const run = async (seed, shown) => {
      const { json, files } = request(spec, seed, shown);
      const options = { files, fresh: true, keep: shown, progress: (now, end) => advance(end ? Math.min(1, now / end) : 0.5) };
      const result = await engine.call(json, options);
      advance(1, true);
      return result;
    };
    const shown = await run(seed, true);
    const runs = [];
    for (const other of others) runs.push(other === seed ? shown.json.run : (await run(other, false)).json.run);
    return { spec, engine, shown, runs: others.length ? runs : [shown.json.run] };
  };

  const why = async (engine, task, at) => {
    const place = one("#why");
    try {
      const { json } = await engine.call({ op: "explain", task, at_ns: at });
      one("h3", place).textContent = `Why ${json.task} waited`;
      one("pre", place).textContent = json.text;
    } catch (error) {
      one("h3", place).textContent = "No explanation";
      one("pre", place).textContent = error.message;
    }
    place.hidden = false;
    place.scrollIntoView({ block: "nearest", behavior: "smooth" });
  };

  const laneTitle = ({ machine, workload, seed }, spec) => `${spec} on ${machine}, ${workload}, seed ${seed}`;
  const showLanes = (results) => {
    drawn.abort();
    drawn = new AbortController();
    const shared = Timelines.link();
    const elements = results.map(({ spec, engine, shown }) => {
      const { run, frame } = shown.json;
      const lane = Object.assign(document.createElement("div"), { className: "lane" });
      const title = Object.assign(document.createElement("h3"), { textContent: laneTitle(run, spec) });
      const says = Object.assign(document.createElement("p"), { className: "quiet" });
      says.append(`${run.outcome}; hash `, Object.assign(document.createElement("code"), { textContent: run.log_hash }));
      lane.append(title, says);
      lane.insertAdjacentHTML("beforeend", frame);
      return { lane, engine, bytes: shown.bytes };
    });
    one("#lanes").replaceChildren(...elements.map(({ lane }) => lane));
    for (const { lane, engine, bytes } of elements) {
      const options = { time, tell, quiet, link: shared, signal: drawn.signal, pick: (task, at) => why(engine, task, at) };
      drawTimeline(one(".timeline", lane), Timelines.model(bytes), options);
    }
    const texts = results.flatMap(({ spec, shown: { json } }) => {
      const sections = json.ejection ? [["Why the scheduler was ejected", json.ejection]] : [];
      return [...sections, ...json.explanations].map(([title, words]) => {
        const details = document.createElement("details");
        const summary = Object.assign(document.createElement("summary"), { textContent: `${spec}: ${title}` });
        details.append(summary, Object.assign(document.createElement("pre"), { textContent: words }));
        details.open = title.includes("ejected");
        return details;
      });
    });
    one("#explanations").replaceChildren(...texts);
  };

  const showReport = async (results) => {
    const { json } = await clerk.call({ op: "report", runs: results.flatMap(({ runs }) => runs) }, { fresh: true });
    const place = one("#report");
    place.innerHTML = json.html;
    Page.enliven(place);
    one("#verdict").textContent = json.verdict;
  };

  const go = async () => {
    const { schedulers, seed, seeds } = state();
    if (!schedulers.length) return status("No scheduler is chosen.", true);
    const began = performance.now();
    one("#hash").textContent = "";
    one("#why").hidden = true;
    engines.filter((engine) => !pinned.some((result) => result.engine === engine)).forEach((engine) => engine.end());
    engines = schedulers.map(() => new Engine());
    busy(true);
    status("Running");
    const others = seeds > 1 ? Array.from({ length: seeds }, (_, index) => index + 1) : [];
    const shown = seeds > 1 ? Math.min(Math.max(seed, 1), seeds) : seed;
    const whole = schedulers.length * Math.max(1, others.length);
    const parts = schedulers.map(() => [0, 0]);
    const advance = (lane) => (share, done = false) => {
      parts[lane] = done ? [parts[lane][0] + 1, 0] : [parts[lane][0], share];
      one("#progress").value = parts.reduce((sum, [runs, part]) => sum + runs + part, 0) / whole;
    };
    try {
      const results = await Promise.all(schedulers.map((spec, lane) =>
        simulate(spec, engines[lane], shown, others, advance(lane))));
      one("#results").hidden = false;
      showLanes([...pinned, ...results]);
      await showReport([...pinned, ...results]);
      latest = results;
      status(`Done in ${time(Math.round((performance.now() - began) * 1e6))}`);
      one("#hash").textContent = results[0].shown.json.run.log_hash;
    } catch (error) {
      engines.forEach((engine) => engine.end());
      engines = [];
      status(error.message === "cancelled" ? "Cancelled" : error.message, error.message !== "cancelled");
    }
    busy(false);
    document.documentElement.dataset.runs = ++finished;
  };
  let [latest, finished, current] = [[], 0, null];
  const cancel = () => engines.forEach((engine) => engine.end());
  // A run that still goes on is cancelled. Of several calls that wait for its end the first starts the run, with what the
  // form says then.
  const start = async () => {
    if (running) cancel();
    await current;
    if (!running) current = go();
  };

  // --- Files that are dropped or chosen.
  const take = async (files) => {
    for (const file of files) {
      // The command line names them so, too.
      const name = `./${file.name}`;
      own.set(name, new Uint8Array(await file.arrayBuffer()));
      if (name.endsWith(".o")) {
        lanes.forEach(({ element }) => one(".policy", element).append(option(name)));
        setLane(lanes[0], name);
      } else if (/\.(weir|json)$/.test(name)) {
        one("#workload").append(option(name));
        one("#workload").value = name;
        one("#composition").value = "";
        showText();
      } else if (name.endsWith(".xml") || /^\[?(topology|costs)\b/m.test(await file.text())) {
        one("#machine").append(option(name));
        one("#machine").value = name;
        one("#shape").value = "";
      }
    }
    one("#dropped").textContent = [...own.keys()].join(", ");
    changed();
  };

  const listen = () => {
    one("#setup").addEventListener("submit", (event) => { event.preventDefault(); remember(true).then(start); });
    one("#cancel").addEventListener("click", cancel);
    one("#pin").addEventListener("click", () => {
      pinned.filter(({ engine }) => !engines.includes(engine)).forEach(({ engine }) => engine.end());
      pinned = latest.slice(0, 1);
      status("Kept. Change something and run again: both timelines will have one time axis.");
    });
    one("#share").addEventListener("click", async () => {
      await remember(true);
      const address = location.href;
      const copied = await navigator.clipboard?.writeText(address).then(() => true, () => false);
      status(copied ? "The link is in the clipboard." : "The link is in the address bar.");
    });
    for (const lane of lanes) {
      one(".policy", lane.element).addEventListener("change", () => { drawLane(lane); changed(); });
      one(".preset", lane.element).addEventListener("change", changed);
    }
    one("#machine").addEventListener("change", () => { one("#shape").value = ""; changed(); });
    one("#workload").addEventListener("change", () => { one("#composition").value = ""; showText(); changed(); });
    const plain = ["#shape", "#composition", "#for", "#without", "#seed", "#seeds"];
    plain.forEach((id) => one(id).addEventListener("change", changed));
    one("#json").addEventListener("change", () => edit(one("#json").value));
    one("#add-task").addEventListener("click", () => {
      try { edit(WorkloadForm.add(one("#json").value)); } catch { one("#json-error").hidden = false; }
    });
    one("#restore").addEventListener("click", () => { showText(); changed(); });
    one("#files").addEventListener("change", (event) => take(event.target.files));
    addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("dropping"); });
    addEventListener("dragleave", () => document.body.classList.remove("dropping"));
    addEventListener("drop", (event) => {
      event.preventDefault();
      document.body.classList.remove("dropping");
      take(event.dataTransfer.files);
    });
    addEventListener("hashchange", async () => {
      if (location.hash === written) return;
      written = location.hash;
      if (await read()) start();
    });
  };

  // The lessons of the course, each with its question and its runs.
  const drawCourse = () => {
    one("#course ol").replaceChildren(...manifest.lessons.map(({ title, question, runs }) => {
      const item = document.createElement("li");
      item.append(Object.assign(document.createElement("b"), { textContent: title }), ` ${question} `);
      runs.forEach(({ name, hash }) => {
        item.append(Object.assign(document.createElement("a"), { href: hash, textContent: name }), " ");
      });
      return item;
    }));
  };

  const begin = async () => {
    const [bytes, script, listed, files] = await Promise.all(["module", "worker", "manifest", "files"].map(unpack));
    module = await WebAssembly.compile(bytes);
    source = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
    manifest = JSON.parse(new TextDecoder().decode(listed));
    let at = 0;
    for (const [name, length] of manifest.files) shipped.set(name, new Uint8Array(files, at, length)), at += length;
    clerk = new Engine();
    const profiles = manifest.schedulers.map((name) => [name, new TextDecoder().decode(shipped.get(`${name}.toml`))]);
    ({ json: catalogue } = await clerk.call({ op: "catalogue", profiles }));
    one("#patterns").innerHTML = catalogue.patterns;
    const lessonFile = ({ name, summary }) => ({ name, summary, text: new TextDecoder().decode(shipped.get(name)) });
    catalogue.workloads.push(...manifest.recordings, ...manifest.exercises.map(lessonFile));
    drawCourse();
    lanes.forEach(({ element }, lane) => one(".policy", element).replaceChildren(
      ...(lane ? [option("", "none")] : []), option("kernel"), ...manifest.schedulers.map((name) => option(name))));
    one("#machine").append(...catalogue.machines.map(({ name, cpus }) => option(name, `${name}: ${cpus} CPUs`)));
    one("#workload").append(...catalogue.workloads.map(({ name }) => option(name)));
    listen();
    show(await parse(""));
    status("Ready");
    const runs = await read();
    written = location.hash;
    document.documentElement.dataset.ready = "";
    if (runs) start();
  };

  Page.start();
  begin().catch((error) => status(error.message, true));
})();
