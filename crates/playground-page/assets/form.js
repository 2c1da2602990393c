// SPDX-License-Identifier: GPL-2.0-only
// The table that edits a workload: what most tasks consist of. The text keeps everything else.
"use strict";
const WorkloadForm = (() => {
  // Column of the table: value in a task, and how it is set. An empty field removes the key.
  const put = (task, key, value) => { if (value === "") delete task[key]; else task[key] = Number(value); };
  const COLUMNS = [
    { get: (task) => task.instance ?? "", set: (task, value) => put(task, "instance", value), min: 1 },
    { get: (task) => task.run ?? "", set: (task, value) => put(task, "run", value), min: 0 },
    { get: (task) => task.sleep ?? "", set: (task, value) => put(task, "sleep", value), min: 0 },
    {
      get: (task) => task.timer?.period ?? "", min: 1,
      set: (task, value, name) => {
        if (value === "") delete task.timer;
        else task.timer = { ...(task.timer ?? { ref: `${name} timer` }), period: Number(value) };
      },
    },
    { get: (task) => task.priority ?? "", set: (task, value) => put(task, "priority", value), min: -20 },
  ];
  const HEADS = ["copies", "runs", "sleeps", "period", "nice"];

  // rt-app files have comments, which JSON has not.
  const parse = (text) => JSON.parse(text.replace(/"(?:[^"\\]|\\.)*"|\/\/[^\n]*|\/\*[^]*?\*\//g,
    (found) => found[0] === '"' ? found : ""));

  // `changed` is called with the new text when a field was edited.
  const draw = (body, text, changed) => {
    let file;
    try { file = parse(text); } catch { body.replaceChildren(); return false; }
    const tell = () => changed(`${JSON.stringify(file, null, 2)}\n`);
    const rows = Object.entries(file.tasks ?? {}).map(([name, task]) => {
      const row = document.createElement("tr");
      const head = document.createElement("th");
      head.scope = "row";
      head.textContent = name;
      row.append(head);
      COLUMNS.forEach(({ get, set, min }, index) => {
        const field = Object.assign(document.createElement("input"), { type: "number", min, value: get(task) });
        field.setAttribute("aria-label", `${name}: ${HEADS[index]}`);
        field.addEventListener("change", () => { set(task, field.value, name); tell(); });
        const cell = document.createElement("td");
        cell.append(field);
        row.append(cell);
      });
      const remove = Object.assign(document.createElement("button"), { type: "button", textContent: "Remove" });
      remove.setAttribute("aria-label", `Remove ${name}`);
      remove.addEventListener("click", () => { delete file.tasks[name]; tell(); });
      const cell = document.createElement("td");
      cell.append(remove);
      row.append(cell);
      return row;
    });
    body.replaceChildren(...rows);
    return true;
  };

  const add = (text) => {
    const file = parse(text);
    const tasks = file.tasks ??= {};
    let number = 1;
    while (`task${number}` in tasks) number++;
    tasks[`task${number}`] = { loop: -1, run: 5000, sleep: 5000 };
    return `${JSON.stringify(file, null, 2)}\n`;
  };

  return { draw, add };
})();
