// SPDX-License-Identifier: GPL-2.0-only
// Drawing of a timeline: rows that share a time axis, which can be zoomed from the whole run to microseconds.
//
// Timelines with the same `link` (made by `Timelines.link`) show the same span of time. `pick`, if given, is called with
// a task and a time in nanoseconds when a wait of this task is selected. `signal` ends the drawing.
"use strict";
const drawTimeline = (frame, data, { time, tell, quiet, link, pick, signal }) => {
  const { find, covered, NONE } = Timelines;
  const canvas = frame.querySelector("canvas");
  const pen = canvas.getContext("2d");
  const NARROWEST = 20;
  const [AXIS, CHAIN, STEPS, DEPTH, STRIP, GAP] = [18, 16, 38, 22, 8, 6];
  const REASONS = ["", "the CPU was idle", "it blocked", "it ended", "it yielded", "its slice ended",
    "it was preempted", "a higher class took the CPU", "its affinity, class or scheduler changed"];
  const KINDS = ["ran", "spun on a lock", "waited for a CPU", "slept until a timer expired", "waited for a device",
    "waited for an external event"];
  const own = { end: data.end * data.unit };
  const limit = () => link ? Math.max(data.end, ...[...link].map(({ end }) => end / data.unit)) : data.end;
  const view = { from: 0, to: data.end };
  let [chosen, cursor, focus, found] = [-1, -1, null, null];
  let colors = {};

  // Rows from top to bottom: function that draws each, and function that describes a time. A run that shares its time axis
  // with a longer one has no values at the right edge.
  const rows = [];
  const add = (name, height, draw, describe, cpu = -1) => {
    const top = rows.length ? rows.at(-1).top + rows.at(-1).height + (cpu > 0 ? laneGap : GAP) : AXIS;
    const say = (ticks) => ticks > data.end ? "after the end of the run" : describe(ticks);
    rows.push({ name, top, height, draw, say, cpu });
  };
  const laneHeight = Math.max(3, Math.min(26, Math.floor(460 / data.lanes.length)));
  const laneGap = laneHeight > 6 ? 2 : 0;

  const name = (task) => task === NONE ? "nobody" : `${data.names[task]?.[1] ?? "?"} [${data.names[task]?.[0] ?? "?"}]`;
  const span = (ticks) => time(ticks * data.unit);
  const step = () => 10 ** Math.floor(Math.log10((view.to - view.from) * data.unit / 4));
  const clock = (ticks, more = 0) => {
    const places = Math.max(0, Math.min(9, 9 + more - Math.floor(Math.log10(step()))));
    return `${(ticks * data.unit / 1e9).toFixed(places)} s`;
  };
  const hue = (task) => `hsl(${(task * 137.508) % 360} 55% ${colors.dark ? 62 : 46}%)`;
  const dim = (task) => found && !found.has(task);

  let [left, width, density] = [0, 0, 1];
  const scale = () => width / (view.to - view.from);
  const xOf = (ticks) => left + (ticks - view.from) * scale();
  const timeAt = (x) => view.from + (x - left) / scale();

  const bar = (from, to, top, height) => {
    const begin = Math.max(left, xOf(from));
    pen.fillRect(begin, top, Math.max(1, Math.min(left + width, xOf(to)) - begin), height);
  };
  // Visible intervals; those within the same pixel are drawn once.
  const each = ({ from, to }, act) => {
    const pixel = 1 / scale();
    for (let index = find(to, view.from); index < from.length && from[index] < view.to;) {
      act(index);
      const next = index + 1;
      index = next < to.length && to[next] - to[index] < pixel ? Math.max(next, find(to, to[index] + pixel)) : next;
    }
  };

  // Rows of CPUs are drawn pixel by pixel where individual run intervals are too narrow: columns of an image with screen
  // resolution. `share` is the share of a column's time in which the CPU ran tasks, `who` the task with most of it.
  const image = { canvas: document.createElement("canvas"), pixels: null, words: null, share: null, who: null, most: null };
  const prepare = (tall) => {
    const [wide, high] = [Math.ceil(width * density), Math.ceil(tall * density)];
    if (image.canvas.width !== wide || image.canvas.height !== high || !image.pixels) {
      Object.assign(image.canvas, { width: wide, height: high });
      image.pixels = new ImageData(wide, high);
      image.words = new Uint32Array(image.pixels.data.buffer);
      [image.share, image.most, image.who] = [new Float32Array(wide), new Float32Array(wide), new Uint32Array(wide)];
    }
    image.words.fill(0);
  };
  const cover = (from, to, task, share) => {
    const columns = image.share.length;
    const [begin, end] = [(from - view.from) * scale() * density, (to - view.from) * scale() * density];
    const last = Math.min(columns - 1, Math.floor(end));
    for (let column = Math.max(0, Math.floor(begin)); column <= last; column++) {
      const part = (Math.min(end, column + 1) - Math.max(begin, column)) * share;
      image.share[column] += part;
      if (part >= image.most[column]) { image.most[column] = part; image.who[column] = task; }
    }
  };
  const paintColumns = (top, height) => {
    const { words, share, who } = image;
    const columns = share.length;
    const [first, end] = [Math.round(top * density), Math.round((top + height) * density)];
    for (let column = 0; column < columns; column++) {
      if (!share[column]) continue;
      const color = dim(who[column]) ? colors.faint[who[column]] : colors.tasks[who[column]];
      const tall = Math.max(1, Math.round((end - first) * Math.min(1, share[column])));
      for (let row = end - tall; row < end; row++) words[row * columns + column] = color;
    }
  };
  const paintLane = (lane, first, count, { top, height }) => {
    image.share.fill(0);
    image.most.fill(0);
    if (count <= 4 * image.share.length) {
      for (let index = first; index < first + count; index++) cover(lane.from[index], lane.to[index], lane.task[index], 1);
    } else {
      const level = lane.level(1 / scale() / density);
      const last = Math.min(level.busy.length - 1, Math.ceil(view.to / level.width));
      for (let bucket = Math.max(0, Math.floor(view.from / level.width)); bucket <= last; bucket++) {
        const from = bucket * level.width;
        if (level.busy[bucket]) cover(from, from + level.width, level.who[bucket], level.busy[bucket]);
      }
    }
    paintColumns(top - rows[lanesFrom].top, height);
  };

  const drawLane = (lane, row) => {
    const first = find(lane.to, view.from);
    const count = find(lane.from, view.to) - first;
    if (count > width / 4) return paintLane(lane, first, count, row);
    const { top, height } = row;
    for (let index = first; index < first + count; index++) {
      const task = lane.task[index];
      pen.globalAlpha = dim(task) ? 0.2 : 1;
      pen.fillStyle = hue(task);
      bar(lane.from[index], lane.to[index], top, height);
      const [begin, end] = [Math.max(left, xOf(lane.from[index])), Math.min(left + width, xOf(lane.to[index]))];
      if (end - begin < 34 || height < 12) continue;
      pen.save();
      pen.beginPath();
      pen.rect(begin, top, end - begin, height);
      pen.clip();
      pen.fillStyle = colors.dark ? "#000" : "#fff";
      pen.fillText(data.names[task][1], begin + 4, top + height / 2 + 4);
      pen.restore();
    }
    pen.globalAlpha = 1;
  };

  // Draws intervals as shades of a color: the opacity of a column of pixels is the share of its time that the intervals
  // cover, so that many short intervals do not look like one long one.
  const shade = (intervals, top, height, color, opacity) => {
    pen.fillStyle = color;
    const [columns, wide] = [Math.round(width * density), 1 / density];
    const length = (view.to - view.from) / columns;
    let [before, begin, shown] = [covered(intervals, view.from), 0, 0];
    for (let column = 0; column <= columns; column++) {
      const until = column < columns ? covered(intervals, view.from + (column + 1) * length) : before;
      const share = Math.min(1, (until - before) / length);
      before = until;
      if (column < columns && Math.abs(share - shown) < 1e-6) continue;
      if (shown) {
        pen.globalAlpha = opacity * shown;
        pen.fillRect(left + begin * wide, top, (column - begin) * wide, height);
      }
      [begin, shown] = [column, share];
    }
    pen.globalAlpha = 1;
  };

  // Lock waits, at the bottom of a row.
  const drawLocks = (locks, { top, height }) => {
    const tall = Math.max(1, Math.min(3, Math.floor(height / 6)));
    shade(locks, top + height - tall, tall, colors.ink, 1);
  };

  // Below the run intervals: time of tasks outside the run.
  const drawOthers = (others, { top, height }) => shade(others, top, height, colors.quiet, 0.3);

  const drawSteps = (steps, { top, height }, most, line, color) => {
    const y = (value) => top + height - value / Math.max(1, most) * (height - 2);
    pen.fillStyle = colors.raised;
    pen.fillRect(left, top, width, height);
    pen.fillStyle = pen.strokeStyle = color;
    const level = steps.level(1 / scale());
    if (level) {
      const last = Math.min(level.low.length - 1, Math.ceil(view.to / level.width));
      for (let bucket = Math.max(0, Math.floor(view.from / level.width)); bucket <= last; bucket++) {
        pen.globalAlpha = 0.35;
        bar(bucket * level.width, (bucket + 1) * level.width, y(level.high[bucket]), top + height - y(level.high[bucket]));
        pen.globalAlpha = 1;
        bar(bucket * level.width, (bucket + 1) * level.width, y(level.low[bucket]), top + height - y(level.low[bucket]));
      }
    } else {
      let index = find(steps.time, view.from) - 1;
      for (; index < steps.time.length && (index < 0 || steps.time[index] < view.to); index++) {
        const [from, value] = index < 0 ? [0, 0] : [steps.time[index], steps.value[index]];
        const to = index + 1 < steps.time.length ? steps.time[index + 1] : data.end;
        if (value && to > view.from) bar(from, to, y(value), top + height - y(value));
      }
    }
    if (line) {
      pen.strokeStyle = colors.ink;
      pen.setLineDash([4, 3]);
      pen.strokeRect(left - 1, y(line), width + 2, 0);
      pen.setLineDash([]);
    }
  };

  const drawChain = ({ top, height }) => each(data.chain, (index) => {
    // Running is full height, waiting for a CPU is half height and red, sleeping is a line.
    const kind = data.chain.kind[index];
    const tall = kind < 2 ? height : kind === 2 ? height / 2 : 2;
    pen.fillStyle = kind < 2 ? colors.accent : kind === 2 ? colors.bad : colors.quiet;
    bar(data.chain.from[index], data.chain.to[index], top + (height - tall) / 2, tall);
  });

  const drawBad = (top, height, opacity) => shade(data.bad, top, height, colors.bad, opacity);

  const inside = ({ from, to }, ticks) => {
    const index = find(from, ticks) - 1;
    return index >= 0 && ticks < to[index] ? index : -1;
  };

  const sayInterval = (cpu, index) => {
    const lane = data.lanes[cpu];
    const [from, to, wait, code] = [lane.from[index], lane.to[index], lane.wait[index], lane.reason[index]];
    const lines = [`${name(lane.task[index])} on CPU ${cpu}`, `from ${clock(from, 3)} for ${span(to - from)}`];
    const since = code & 1 ? "since it was woken" : "since it was preempted or yielded";
    if (wait) lines.push(`waited ${span(wait)} for a CPU, ${since}`);
    if (code >> 1) lines.push(`ended: ${REASONS[code >> 1]}`);
    if (pick && wait) lines.push("click or press Enter to explain this wait");
    return lines.join("\n");
  };
  const sayLane = (cpu, ticks) => {
    const lane = data.lanes[cpu];
    const index = find(lane.to, ticks);
    if (index < lane.from.length && lane.from[index] <= ticks) return sayInterval(cpu, index);
    const [from, to] = [index ? lane.to[index - 1] : 0, index < lane.from.length ? lane.from[index] : data.end];
    const other = inside(data.others[cpu], ticks);
    if (other >= 0) {
      const { from, to } = data.others[cpu];
      return `CPU ${cpu} runs tasks outside the run\nfrom ${clock(from[other], 3)} for ${span(to[other] - from[other])}`;
    }
    const waits = inside(data.bad, ticks) >= 0 ? "\nwhile a task waits that may run on some idle CPU" : "";
    return `CPU ${cpu} runs no task\nfrom ${clock(from, 3)} for ${span(to - from)}${waits}`;
  };

  const axis = () => {
    pen.fillStyle = pen.strokeStyle = colors.quiet;
    const unit = step() / data.unit;
    const every = [1, 2, 5, 10, 20].map((times) => times * unit).find((ticks) => ticks * scale() > 96) ?? 50 * unit;
    for (let ticks = Math.ceil(view.from / every) * every; ticks < view.to; ticks += every) {
      const x = xOf(ticks);
      pen.globalAlpha = 0.35;
      pen.fillRect(x, AXIS - 4, 1, canvas.clientHeight);
      pen.globalAlpha = 1;
      if (x + 60 < left + width) pen.fillText(clock(ticks), x + 2, 11);
    }
  };

  const drawFocus = () => {
    if (!focus) return;
    const { top, height } = rows.find((row) => row.cpu === Math.max(0, focus.cpu));
    pen.strokeStyle = colors.ink;
    pen.lineWidth = 2;
    const [from, to] = [Math.max(left, xOf(focus.from)), Math.min(left + width, xOf(focus.from + focus.length))];
    if (to > from) pen.strokeRect(from, top - 1, to - from, height + 2);
    pen.lineWidth = 1;
  };

  const draw = () => {
    // A run that is not selected is invisible; it is drawn when it becomes visible and gets its size.
    if (!canvas.clientWidth) return;
    const began = performance.now();
    density = devicePixelRatio;
    const [wide, tall] = [canvas.clientWidth, rows.at(-1).top + rows.at(-1).height + 4];
    canvas.style.height = `${tall}px`;
    if (canvas.width !== Math.round(wide * density) || canvas.height !== Math.round(tall * density)) {
      [canvas.width, canvas.height] = [Math.round(wide * density), Math.round(tall * density)];
    }
    left = wide < 500 ? 52 : 96;
    width = wide - left - 2;
    pen.setTransform(density, 0, 0, density, 0, 0);
    pen.clearRect(0, 0, wide, tall);
    pen.font = "12px system-ui, sans-serif";
    axis();
    const lanes = rows.filter((row) => row.cpu >= 0);
    drawBad(lanes[0].top, tall - lanes[0].top, 0.25);
    prepare(tall - lanes[0].top);
    const every = Math.ceil(13 / (laneHeight + laneGap));
    for (const row of rows) {
      pen.fillStyle = row.cpu === chosen && row.cpu >= 0 ? colors.accent : colors.quiet;
      const label = wide < 500 ? row.name.split(" ").pop().slice(0, 8) : row.name.slice(0, 15);
      if (row.cpu < 0 || row.cpu % every === 0) pen.fillText(label, 2, row.top + Math.min(row.height, 20) / 2 + 4);
      row.draw(row);
    }
    image.canvas.getContext("2d").putImageData(image.pixels, 0, 0);
    pen.drawImage(image.canvas, left, lanes[0].top, image.canvas.width / density, image.canvas.height / density);
    if (locked) lanes.forEach((row) => drawLocks(data.locks[row.cpu], row));
    if (chosen >= 0) {
      const { top, height } = lanes[chosen];
      pen.strokeStyle = colors.accent;
      pen.strokeRect(left - 1, top - 1, width + 2, height + 2);
    }
    drawFocus();
    canvas.dataset.ms = (performance.now() - began).toFixed(2);
    canvas.dataset.from = view.from * data.unit;
    canvas.dataset.to = view.to * data.unit;
  };
  let pending = false;
  const redraw = () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => { pending = false; draw(); });
  };
  const repaint = () => {
    const style = (color) => {
      const probe = frame.querySelector(".probe");
      probe.style.color = `var(--${color})`;
      return getComputedStyle(probe).color;
    };
    const names = ["ink", "quiet", "raised", "accent", "bad", "run", "scheduler", "ground"];
    for (const color of names) colors[color] = style(color);
    const [red] = colors.ground.match(/[\d.]+/g).map(Number);
    colors.dark = red < 128;
    // Byte order of image pixels: alpha, blue, green, red.
    colors.tasks = Uint32Array.from(data.names, (_, task) => {
      const light = colors.dark ? 0.62 : 0.46;
      const part = (offset) => {
        const k = (offset + task * 137.508 / 30) % 12;
        return Math.round(255 * (light - 0.55 * Math.min(light, 1 - light) * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
      };
      return (255 << 24 | part(4) << 16 | part(8) << 8 | part(0)) >>> 0;
    });
    colors.faint = colors.tasks.map((color) => (color & 0xffffff | 51 << 24) >>> 0);
    redraw();
  };

  own.show = (from, to) => {
    Object.assign(view, { from: from / data.unit, to: to / data.unit });
    redraw();
  };
  const look = (from, to) => {
    const length = Math.max(NARROWEST, Math.min(limit(), to - from));
    view.from = Math.max(0, Math.min(limit() - length, from));
    view.to = view.from + length;
    redraw();
    for (const other of link ?? []) if (other !== own) other.show(view.from * data.unit, view.to * data.unit);
  };
  const zoom = (factor, at = (view.from + view.to) / 2) => {
    const length = Math.max(NARROWEST, (view.to - view.from) / factor);
    const part = (at - view.from) / (view.to - view.from);
    look(at - part * length, at + (1 - part) * length);
  };
  const pan = (share) => look(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));
  const whole = () => { focus = null; look(0, limit()); };

  add("longest chain", CHAIN, drawChain, (ticks) => {
    const index = inside(data.chain, ticks);
    if (index < 0) return "";
    const { from, to, task, kind } = data.chain;
    return `longest chain of causes: ${name(task[index])} ${KINDS[kind[index]]} for ${span(to[index] - from[index])}`;
  });
  const cpus = data.lanes.length;
  add("CPUs running", STEPS, (row) => drawSteps(data.running, row, cpus, cpus, colors.run),
    (ticks) => `${data.running.at(ticks)} of ${cpus} CPUs run tasks at ${clock(ticks, 3)}`);
  add("tasks waiting", STEPS, (row) => drawSteps(data.waiting, row, data.waiting.most, 0, colors.scheduler),
    (ticks) => `${data.waiting.at(ticks)} tasks wait for a CPU at ${clock(ticks, 3)}; at most ${data.waiting.most}`);
  data.queues.forEach(({ name, steps }) => {
    add(name, DEPTH, (row) => drawSteps(steps, row, steps.most, 0, colors.accent),
      (ticks) => `${steps.at(ticks)} tasks in ${name} at ${clock(ticks, 3)}; at most ${steps.most}`);
  });
  add("avoidable idle", STRIP, ({ top, height }) => drawBad(top, height, 1), (ticks) => {
    const index = inside(data.bad, ticks);
    if (index < 0) return "no CPU idles while a task waits that may run there";
    return `a CPU idles for ${span(data.bad.to[index] - data.bad.from[index])} while a task waits that may run there`;
  });
  const locked = data.locks.some((lock) => lock.from.length);
  const lanesFrom = rows.length;
  data.lanes.forEach((lane, cpu) => add(`CPU ${cpu}`, laneHeight, (row) => {
    drawOthers(data.others[cpu], row);
    drawLane(lane, row);
  }, (ticks) => {
    const index = inside(data.locks[cpu], ticks);
    const lock = index < 0 ? "" : `\nwaits ${span(data.locks[cpu].to[index] - data.locks[cpu].from[index])} for a lock`;
    return sayLane(cpu, ticks) + lock;
  }, cpu));

  // Moves to the previous or next run interval on the selected CPU, by keys.
  const walk = (way) => {
    if (chosen < 0) chosen = 0;
    const lane = data.lanes[chosen];
    const near = find(lane.to, (view.from + view.to) / 2);
    cursor = Math.max(0, Math.min(lane.from.length - 1, cursor < 0 ? near : cursor + way));
    if (!lane.from.length) return;
    const middle = (lane.from[cursor] + lane.to[cursor]) / 2;
    if (middle < view.from || middle > view.to) look(middle - (view.to - view.from) / 2, middle + (view.to - view.from) / 2);
    const { left: x, top: y } = canvas.getBoundingClientRect();
    tell(sayInterval(chosen, cursor), x + xOf(middle), y + rows.find((row) => row.cpu === chosen).top + laneHeight);
    redraw();
  };
  const choose = (way) => {
    chosen = Math.max(0, Math.min(cpus - 1, chosen + way));
    cursor = -1;
    walk(0);
  };
  // Selects the wait before a run interval, or a link of the chain.
  const choosing = (task, from, length) => pick?.(task, Math.round((from + length / 2) * data.unit));
  const pickInterval = (cpu, index) => {
    const lane = data.lanes[cpu];
    const wait = lane?.wait[index];
    if (wait) choosing(lane.task[index], lane.from[index] - wait, wait);
  };
  const pickAt = (row, ticks) => {
    if (row.draw === drawChain) {
      const index = inside(data.chain, ticks);
      if (index >= 0) choosing(data.chain.task[index], data.chain.from[index], data.chain.to[index] - data.chain.from[index]);
    } else if (row.cpu >= 0) {
      const index = inside(data.lanes[row.cpu], ticks);
      if (index >= 0) pickInterval(row.cpu, index);
    }
  };
  const KEYS = {
    Enter: () => pickInterval(chosen, cursor),
    ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(2), "=": () => zoom(2), "-": () => zoom(0.5),
    0: whole, PageDown: () => choose(1), PageUp: () => choose(-1), n: () => walk(1), p: () => walk(-1),
  };
  canvas.addEventListener("keydown", (event) => {
    if (!KEYS[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  frame.querySelectorAll("[data-key]").forEach((button) => button.addEventListener("click", () => KEYS[button.dataset.key]()));

  // Pointer: hovering shows values, dragging pans, two fingers or the wheel with Ctrl zoom.
  const fingers = new Map();
  const local = (event) => event.clientX - canvas.getBoundingClientRect().left;
  const rowAt = (event) => {
    const y = event.clientY - canvas.getBoundingClientRect().top;
    return rows.find(({ top, height }) => y >= top && y < top + height + laneGap);
  };
  let pressed = 0;
  canvas.addEventListener("click", (event) => {
    const [row, x] = [rowAt(event), local(event)];
    // To the left of the plot are labels.
    if (row && x >= left && Math.abs(event.clientX - pressed) < 4) pickAt(row, timeAt(x));
  });
  canvas.addEventListener("pointerdown", (event) => {
    pressed = event.clientX;
    fingers.set(event.pointerId, local(event));
    canvas.setPointerCapture(event.pointerId);
  });
  for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, (event) => fingers.delete(event.pointerId));
  canvas.addEventListener("pointermove", (event) => {
    const x = local(event);
    const before = fingers.get(event.pointerId);
    if (before === undefined) {
      const row = rowAt(event);
      const text = row && x >= left ? row.say(timeAt(x)) : "";
      return tell(text, event.clientX, event.clientY);
    }
    quiet();
    const others = [...fingers].filter(([id]) => id !== event.pointerId);
    fingers.set(event.pointerId, x);
    if (!others.length) return look(view.from - (x - before) / scale(), view.to - (x - before) / scale());
    const still = others[0][1];
    if (Math.abs(before - still) > 8) zoom(Math.abs(x - still) / Math.abs(before - still), timeAt(still));
  });
  canvas.addEventListener("pointerleave", quiet);
  canvas.addEventListener("dblclick", (event) => zoom(4, timeAt(local(event))));
  canvas.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey || document.activeElement === canvas) {
      event.preventDefault();
      zoom(Math.exp(-event.deltaY / 300), timeAt(local(event)));
    }
  }, { passive: false });

  const search = frame.querySelector("[data-find]");
  search.addEventListener("input", () => {
    const wanted = search.value.toLowerCase();
    const fits = ([pid, task]) => `${pid} ${task}`.toLowerCase().includes(wanted);
    found = wanted ? new Set(data.names.flatMap((task, index) => fits(task) ? [index] : [])) : null;
    redraw();
  });

  const list = frame.querySelector(".longest");
  list.replaceChildren(...data.longest.map((wait) => {
    const button = document.createElement("button");
    button.type = "button";
    const where = wait.cpu < 0 ? "which never ended" : `then CPU ${wait.cpu}`;
    const since = (wait.from * data.unit / 1e9).toFixed(6);
    button.textContent = `${span(wait.length)}: ${name(wait.task)} from ${since} s, ${where}`;
    button.addEventListener("click", () => {
      focus = wait;
      chosen = wait.cpu;
      look(wait.from - wait.length / 4, wait.from + wait.length * 1.25);
      choosing(wait.task, wait.from, wait.length);
      canvas.scrollIntoView({ block: "nearest" });
    });
    const item = document.createElement("li");
    item.append(button);
    return item;
  }));

  if (link) {
    link.add(own);
    look(0, limit());
  }
  new ResizeObserver(redraw).observe(canvas);
  document.addEventListener("repaint", repaint, { signal });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint, { signal });
  matchMedia("print").addEventListener("change", repaint, { signal });
  repaint();
};
