// SPDX-License-Identifier: GPL-2.0-only
// Interaction of a page: values at the pointer and by keys, explanations, colors, selection of a run, sorting of tasks.
// Loads nothing and stores nothing. `Page.start` is for the whole page, `Page.enliven` for an element with sections of a
// report.
"use strict";
const Page = (() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const one = (selector, within = document) => within.querySelector(selector);

  // Times in the program's format: the largest unit for which the number is above 1, three digits.
  const time = (ns) => {
    if (ns === null) return "-";
    const [unit, size] = ns < 1e3 ? ["ns", 1] : ns < 1e6 ? ["us", 1e3] : ns < 1e9 ? ["ms", 1e6] : ["s", 1e9];
    if (size === 1) return `${ns} ns`;
    const places = ns / size < 10 ? 2 : ns / size < 100 ? 1 : 0;
    const scale = 10 ** places;
    return `${(Math.floor(ns * scale / size) / scale).toFixed(places)} ${unit}`;
  };
  const count = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");

  const decode = async (id) => {
    const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Response(stream).arrayBuffer();
  };

  // A box with values next to a position in the window.
  const tip = one("#tip");
  const tell = (text, x, y) => {
    tip.hidden = !text;
    if (!text) return;
    if (tip.textContent !== text) tip.textContent = text;
    const { width, height } = tip.getBoundingClientRect();
    const left = Math.max(4, Math.min(x + 14, innerWidth - width - 4));
    tip.style.left = `${left}px`;
    tip.style.top = `${y + 18 + height > innerHeight ? Math.max(4, y - height - 10) : y + 18}px`;
  };
  const quiet = () => tell("");

  const tips = (root) => {
    for (const element of all("[data-tip]", root)) {
      element.addEventListener("pointermove", (event) => tell(element.dataset.tip, event.clientX, event.clientY));
      element.addEventListener("pointerleave", quiet);
      element.addEventListener("focus", () => {
        const { left, bottom } = element.getBoundingClientRect();
        tell(element.dataset.tip, left, bottom - 18);
      });
      element.addEventListener("blur", quiet);
    }
  };

  // Points of a plot: the nearest to the pointer, or in sequence by the arrow keys.
  const spots = (plot) => {
    const list = JSON.parse(plot.dataset.spots);
    if (!list.length) return;
    const ring = one(".picked", plot);
    let at = -1;
    const show = (index) => {
      at = index;
      const [x, y, text] = list[index];
      ring.setAttribute("cx", x);
      ring.setAttribute("cy", y);
      ring.style.visibility = "visible";
      const place = new DOMPoint(x, y).matrixTransform(plot.getScreenCTM());
      tell(text, place.x, place.y);
    };
    const leave = () => { ring.style.visibility = ""; quiet(); };
    plot.addEventListener("pointermove", (event) => {
      const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(plot.getScreenCTM().inverse());
      const far = ([a, b]) => (a - x) ** 2 + (b - y) ** 2;
      show(list.reduce((best, spot, index) => far(spot) < far(list[best]) ? index : best, 0));
    });
    plot.addEventListener("pointerleave", leave);
    plot.addEventListener("blur", leave);
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      show((at + step + list.length) % list.length);
    });
  };

  const explanations = (root) => {
    for (const button of all("button.why", root)) {
      button.addEventListener("click", () => {
        const row = document.getElementById(button.getAttribute("aria-controls"));
        row.hidden = !row.hidden;
        button.setAttribute("aria-expanded", String(!row.hidden));
      });
    }
    for (const box of all("[data-all]", root)) {
      const table = one(".measures", document.getElementById(box.dataset.all));
      box.addEventListener("change", () => table.classList.toggle("all", box.checked));
    }
  };

  const copying = (root) => {
    for (const button of all("[data-copy]", root)) {
      button.addEventListener("click", () => {
        const source = document.getElementById(button.dataset.copy);
        getSelection().selectAllChildren(source);
        const done = document.execCommand("copy");
        button.textContent = done ? "Copied" : "Press Ctrl-C";
      });
    }
  };

  const colors = () => {
    const theme = one("#theme");
    theme?.addEventListener("change", () => {
      document.documentElement.dataset.theme = theme.value;
      document.dispatchEvent(new Event("repaint"));
    });
  };

  // Table of tasks: sortable by any column, filtered by the search text.
  const SHOWN = 200;
  const TIMES = new Set([2, 3, 4, 5, 7, 8, 9]);
  const TEXTS = new Set([1, 10, 11]);
  const tasks = (table) => {
    let data = null;
    let sorted = { column: 2, way: -1 };
    const search = one(`[data-search="${table.id}"]`);
    const cell = (value, column) => {
      const element = document.createElement("td");
      element.textContent = TIMES.has(column) ? time(value) : typeof value === "number" && column ? count(value) : value;
      if (column > 9) element.title = value;
      return element;
    };
    const draw = () => {
      const wanted = search.value.toLowerCase();
      const { column, way } = sorted;
      const order = (a, b) => {
        const [x, y] = [a[column], b[column]];
        if (x === null || y === null) return (x === null) - (y === null);
        return way * (typeof x === "number" ? x - y : x < y ? -1 : x > y ? 1 : 0);
      };
      const rows = data.rows.filter((row) => `${row[0]} ${row[1]}`.toLowerCase().includes(wanted)).sort(order);
      const body = table.tBodies[0];
      body.replaceChildren(...rows.slice(0, SHOWN).map((row) => {
        const element = document.createElement("tr");
        element.append(...row.map(cell));
        return element;
      }));
      const shown = rows.length > SHOWN ? `The first ${SHOWN} of ${count(rows.length)} found` : count(rows.length);
      one(".shown", table.closest("article")).textContent = shown;
      all("th", table).forEach((head, index) => {
        if (index === column) head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
        else head.removeAttribute("aria-sort");
      });
    };
    const load = async () => {
      data ??= JSON.parse(new TextDecoder().decode(await decode(table.dataset.source)));
      draw();
    };
    all("th", table).forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const first = TEXTS.has(column) || column === 0 ? 1 : -1;
        sorted = { column, way: sorted.column === column ? -sorted.way : first };
        load();
      });
    });
    search.addEventListener("input", load);
    return load;
  };

  // A timeline is decoded when its run is first shown.
  const timelines = new WeakSet();
  const showTimeline = async (frame, link) => {
    if (!frame || timelines.has(frame)) return;
    timelines.add(frame);
    const data = Timelines.model(await decode(frame.dataset.source));
    drawTimeline(frame, data, { time, tell, quiet, link });
    frame.dataset.ready = "";
  };

  // One run at a time, and the timeline of another one beside it. All timelines of a page show the same span of time.
  const closeUp = (root) => {
    const loads = all(".tasks", root).map(tasks);
    const articles = all("#close-up article", root);
    const frames = articles.map((article) => one(".timeline", article));
    const homes = frames.map((frame) => frame?.parentNode.insertBefore(document.createComment(""), frame.nextSibling));
    const [chooser, second] = [one("#run", root), one("#beside", root)];
    const link = Timelines.link();
    let moved = -1;
    const show = () => {
      const chosen = chooser ? Number(chooser.value) : 0;
      const other = second ? Number(second.value) : -1;
      articles.forEach((article, index) => { article.hidden = index !== chosen; });
      if (one(".tasks", articles[chosen])) loads[all(".tasks", root).indexOf(one(".tasks", articles[chosen]))]();
      if (moved >= 0) homes[moved].before(frames[moved]);
      moved = -1;
      frames.forEach((frame) => frame?.removeAttribute("data-beside"));
      showTimeline(frames[chosen], link);
      if (other < 0 || other === chosen || !frames[other] || !frames[chosen]) return;
      frames[chosen].dataset.beside = one("h3", articles[chosen]).textContent;
      frames[other].dataset.beside = one("h3", articles[other]).textContent;
      frames[chosen].after(frames[other]);
      moved = other;
      showTimeline(frames[other], link);
    };
    chooser?.addEventListener("change", () => {
      if (second && second.value === chooser.value) second.value = chooser.value === "0" ? "1" : "0";
      show();
    });
    second?.addEventListener("change", show);
    if (articles.length) show();
  };

  const enliven = (root) => {
    tips(root);
    all("[data-spots]", root).forEach(spots);
    explanations(root);
    copying(root);
    closeUp(root);
  };
  const start = () => {
    colors();
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") quiet(); });
  };

  return { all, one, time, count, tell, quiet, enliven, start };
})();
