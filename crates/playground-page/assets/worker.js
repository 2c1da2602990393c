// SPDX-License-Identifier: GPL-2.0-only
// A worker with the simulator. Each call has an instance of its own, as the memory of an instance never shrinks; the one
// that a call keeps answers the calls for the same run later.
"use strict";
const EVERY_MS = 50;
const PANIC = /panicked at/;
let [module, kept] = [null, null];

const instance = (call) => {
  let [memory, told] = [null, 0];
  const text = (from, length) => new TextDecoder().decode(new Uint8Array(memory.buffer, from, length));
  const weir = {
    progress: (now, end) => {
      if (performance.now() - told < EVERY_MS) return;
      told = performance.now();
      postMessage({ call: call.current, now, end });
    },
    panicked: (from, length) => { throw new Error(text(from, length)); },
  };
  // The library for plots has functions for a canvas of its own, which are never called here.
  const imports = { weir };
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    if (from !== "weir") (imports[from] ??= {})[name] = () => { throw new Error(`${name} is not there`); };
  }
  const { exports } = new WebAssembly.Instance(module, imports);
  memory = exports.memory;
  return (request) => {
    // Reserving may replace the buffer.
    const place = exports.reserve(request.byteLength);
    new Uint8Array(memory.buffer, place, request.byteLength).set(new Uint8Array(request));
    const at = exports.answer();
    const length = new DataView(memory.buffer).getUint32(at, true);
    return memory.buffer.slice(at + 4, at + 4 + length);
  };
};

onmessage = ({ data }) => {
  if (data.module) { module = data.module; return; }
  const { call, request, fresh, keep } = data;
  try {
    let one = kept;
    if (fresh || !kept) {
      const holder = { current: call };
      one = { holder, answer: instance(holder) };
      if (keep) kept = one;
    }
    one.holder.current = call;
    const answer = one.answer(request);
    postMessage({ call, answer }, [answer]);
  } catch (error) {
    // A trap leaves an instance in an unknown state.
    if (keep || !fresh) kept = null;
    const { message } = error;
    postMessage({ call, error: PANIC.test(message) ? `this is a bug in Weir: ${message}` : message });
  }
};
