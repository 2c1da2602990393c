// SPDX-License-Identifier: GPL-2.0-only
// Data of a timeline: columns of varints, decoded once. Where the data are denser than pixels, they are drawn from
// precomputed buckets, so that the drawing time depends on the number of pixels only.
"use strict";
const Timelines = (() => {
  const NONE = 0xffffffff;

  // Number of the sorted times that are at or before `time`.
  const find = (times, time) => {
    let [low, high] = [0, times.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] <= time) low = middle + 1; else high = middle;
    }
    return low;
  };

  // Decodes the columns written by `crates/page/src/track.rs`.
  const unpack = (buffer) => {
    const bytes = new Uint8Array(buffer);
    const length = new DataView(buffer).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
    let at = 4 + length;
    for (const name of Object.keys(head.columns)) {
      const column = new Float64Array(head.columns[name]);
      for (let index = 0; index < column.length; index++) {
        let value = 0, scale = 1, byte;
        do { byte = bytes[at++]; value += (byte & 127) * scale; scale *= 128; } while (byte & 128);
        column[index] = value;
      }
      head.columns[name] = column;
    }
    return head;
  };

  // Run intervals of a CPU with buckets of several widths: the busy share of each, and the task with most of it.
  class Lane {
    constructor(from, to, task, end) {
      Object.assign(this, { from, to, task, end });
      let count = 512;
      while (count < from.length / 4 && count < 1 << 20) count *= 2;
      const width = end / count;
      const busy = new Float32Array(count), most = new Float32Array(count), who = new Uint32Array(count).fill(NONE);
      for (let index = 0; index < from.length; index++) {
        const last = Math.min(count - 1, Math.floor(to[index] / width));
        for (let bucket = Math.min(count - 1, Math.floor(from[index] / width)); bucket <= last; bucket++) {
          const part = Math.min(to[index], (bucket + 1) * width) - Math.max(from[index], bucket * width);
          busy[bucket] += part / width;
          if (part >= most[bucket]) { most[bucket] = part; who[bucket] = task[index]; }
        }
      }
      this.levels = [{ width, busy, most, who }];
      while (this.levels.at(-1).busy.length > 512) this.levels.push(Lane.coarser(this.levels.at(-1)));
    }

    static coarser({ width, busy, most, who }) {
      const half = busy.length / 2;
      const up = { width: width * 2, busy: new Float32Array(half), most: new Float32Array(half), who: new Uint32Array(half) };
      for (let index = 0; index < half; index++) {
        const [a, b] = [2 * index, 2 * index + 1];
        up.busy[index] = (busy[a] + busy[b]) / 2;
        const best = most[a] >= most[b] ? a : b;
        up.most[index] = most[best];
        up.who[index] = who[best];
      }
      return up;
    }

    // The widest buckets that are at most a pixel wide, or the narrowest.
    level(pixel) {
      return this.levels.findLast((level) => level.width <= pixel) ?? this.levels[0];
    }
  }

  // A number that changes in steps, with the minimum and maximum of buckets.
  class Steps {
    static counting(ups, downs, end) {
      ups.sort();
      downs.sort();
      const count = ups.length + downs.length;
      const time = new Float64Array(count);
      const value = new Int32Array(count);
      let [up, down, now] = [0, 0, 0];
      for (let index = 0; index < count; index++) {
        const rises = down >= downs.length || (up < ups.length && ups[up] < downs[down]);
        time[index] = rises ? ups[up++] : downs[down++];
        now += rises ? 1 : -1;
        value[index] = now;
      }
      return new Steps(time, value, end);
    }

    constructor(time, value, end) {
      Object.assign(this, { time, value });
      const count = time.length;
      let buckets = 512;
      while (buckets < count / 4 && buckets < 1 << 20) buckets *= 2;
      const width = end / buckets;
      const [low, high] = [new Int32Array(buckets).fill(0x7fffffff), new Int32Array(buckets)];
      const hold = (value, from, to) => {
        const last = Math.min(buckets - 1, Math.floor(to / width));
        for (let bucket = Math.min(buckets - 1, Math.floor(from / width)); bucket <= last; bucket++) {
          if (value < low[bucket]) low[bucket] = value;
          if (value > high[bucket]) high[bucket] = value;
        }
      };
      hold(0, 0, count ? this.time[0] : end);
      for (let index = 0; index < count; index++) {
        const until = index + 1 < count ? this.time[index + 1] : end;
        // Omits values of no duration.
        if (until > this.time[index]) hold(this.value[index], this.time[index], until);
      }
      this.levels = [{ width, low, high }];
      while (this.levels.at(-1).low.length > 512) {
        const fine = this.levels.at(-1), half = fine.low.length / 2;
        const up = { width: fine.width * 2, low: new Int32Array(half), high: new Int32Array(half) };
        for (let index = 0; index < half; index++) {
          up.low[index] = Math.min(fine.low[2 * index], fine.low[2 * index + 1]);
          up.high[index] = Math.max(fine.high[2 * index], fine.high[2 * index + 1]);
        }
        this.levels.push(up);
      }
      this.most = this.levels.at(-1).high.reduce((most, value) => Math.max(most, value), 0);
    }

    at(time) {
      return this.value[find(this.time, time) - 1] ?? 0;
    }

    // The narrowest buckets that are at least a pixel wide; undefined where individual steps are wider than that.
    level(pixel) {
      return this.levels[0].width > pixel ? undefined : this.levels.findLast((level) => level.width <= pixel);
    }
  }

  // Rows of consecutive intervals, given by gaps and lengths. `before` is the total length of those before each.
  const rows = (gaps, lengths, counts) => {
    const result = [];
    let index = 0;
    for (const count of counts) {
      const [from, to, before] = [new Float64Array(count), new Float64Array(count), new Float64Array(count + 1)];
      let now = 0;
      for (let row = 0; row < count; row++, index++) {
        from[row] = now += gaps[index];
        to[row] = now += lengths[index];
        before[row + 1] = before[row] + lengths[index];
      }
      result.push({ from, to, before });
    }
    return result;
  };

  // Total length of a row's intervals up to a time.
  const covered = ({ from, to, before }, time) => {
    const index = find(to, time);
    return before[index] + (index < from.length ? Math.max(0, time - from[index]) : 0);
  };

  // The longest waits for a CPU: task, CPU at the end (none if it did not end), begin and length.
  const SHOWN = 8;
  const longest = (lanes, lost) => {
    const best = [];
    const offer = (length, wait) => {
      if (best.length === SHOWN && length <= best.at(-1).length) return;
      best.push({ length, ...wait() });
      best.sort((a, b) => b.length - a.length);
      if (best.length > SHOWN) best.pop();
    };
    lanes.forEach((lane, cpu) => lane.wait.forEach((length, index) => {
      if (length) offer(length, () => ({ cpu, task: lane.task[index], from: lane.from[index] - length }));
    }));
    lost.from.forEach((from, index) => offer(lost.length[index], () => ({ cpu: -1, task: lost.task[index], from })));
    return best;
  };

  const model = (buffer) => {
    const head = unpack(buffer);
    const { columns, end } = head;
    let first = 0;
    const lanes = rows(columns.gap, columns.length, columns.intervals).map(({ from, to }) => {
      const cut = (column) => column.subarray(first, first + from.length);
      const lane = new Lane(from, to, cut(columns.task), end);
      Object.assign(lane, { wait: cut(columns.wait), reason: cut(columns.reason) });
      first += from.length;
      return lane;
    });
    const total = columns.task.length + columns.lost_from.length;
    const [begin, stop] = [new Float64Array(columns.task.length), new Float64Array(columns.task.length)];
    const [since, until] = [new Float64Array(total), new Float64Array(total)];
    let [place, waits] = [0, 0];
    for (const lane of lanes) {
      begin.set(lane.from, place);
      stop.set(lane.to, place);
      place += lane.from.length;
      for (let index = 0; index < lane.from.length; index++) {
        if (!lane.wait[index]) continue;
        since[waits] = lane.from[index] - lane.wait[index];
        until[waits++] = lane.from[index];
      }
    }
    columns.lost_from.forEach((from, index) => {
      since[waits] = from;
      until[waits++] = from + columns.lost_length[index];
    });
    const bad = rows(columns.bad_gap, columns.bad_length, [columns.bad_gap.length])[0];
    const locks = rows(columns.lock_gap, columns.lock_length, columns.locks);
    const others = rows(columns.other_gap, columns.other_length, columns.others);
    let step = 0;
    const queues = head.queues.map((name, queue) => {
      const count = columns.depths[queue];
      const time = columns.depth_gap.slice(step, step + count);
      for (let index = 1; index < count; index++) time[index] += time[index - 1];
      const steps = new Steps(time, Int32Array.from(columns.depth.subarray(step, step + count)), end);
      step += count;
      return { name, steps };
    });
    const chain = rows(columns.chain_gap, columns.chain_length, [columns.chain_gap.length])[0];
    Object.assign(chain, { task: columns.chain_task, kind: columns.chain_kind });
    const lost = { from: columns.lost_from, length: columns.lost_length, task: columns.lost_task };
    return {
      ...head, lanes, bad, locks, others, queues, chain, lost, longest: longest(lanes, lost),
      running: Steps.counting(begin, stop, end),
      waiting: Steps.counting(since.slice(0, waits), until.slice(0, waits), end),
    };
  };

  // What several timelines that show the same span of time have in common.
  const link = () => new Set();

  return { model, find, covered, link, NONE };
})();
