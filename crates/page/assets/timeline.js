// SPDX-License-Identifier: GPL-2.0-only
// The timeline of a run: what each CPU ran, from the whole run to microseconds. Data come as columns of varints and are
// unpacked once; what is too dense for pixels is drawn from buckets that were filled then, so a picture never takes
// longer than its number of pixels.
"use strict";
const Timeline = (() => {
  const NONE = 0xffffffff;

  // Unpacks the columns that `crates/page/src/track.rs` wrote.
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

  // The stints of a CPU with buckets of several widths: the share of each that was busy, and who had most of it.
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

    // The first stint that ends after `time`.
    first(time) {
      let [low, high] = [0, this.to.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.to[middle] <= time) low = middle + 1; else high = middle;
      }
      return low;
    }

    // The finest buckets that are no narrower than a pixel.
    level(pixel) {
      return this.levels.find((level) => level.width >= pixel) ?? this.levels.at(-1);
    }
  }

  // A number that changes in steps, with the least and greatest value of buckets.
  class Steps {
    constructor(ups, downs, end) {
      ups.sort();
      downs.sort();
      const count = ups.length + downs.length;
      this.time = new Float64Array(count);
      this.value = new Int32Array(count);
      let [up, down, now] = [0, 0, 0];
      for (let index = 0; index < count; index++) {
        const rises = down >= downs.length || (up < ups.length && ups[up] < downs[down]);
        this.time[index] = rises ? ups[up++] : downs[down++];
        now += rises ? 1 : -1;
        this.value[index] = now;
      }
      this.most = 0;
      for (const value of this.value) if (value > this.most) this.most = value;
      let buckets = 512;
      while (buckets < count / 4 && buckets < 1 << 20) buckets *= 2;
      const width = end / buckets;
      const [low, high] = [new Int32Array(buckets).fill(0x7fffffff), new Int32Array(buckets)];
      let value = 0, bucket = 0;
      const touch = (upto) => {
        for (; ; bucket++) {
          low[bucket] = Math.min(low[bucket], value);
          high[bucket] = Math.max(high[bucket], value);
          if (bucket >= upto) break;
        }
      };
      for (let index = 0; index < count; index++) {
        touch(Math.min(buckets - 1, Math.floor(this.time[index] / width)));
        // What holds for no time is no value.
        if (index + 1 < count && this.time[index + 1] === this.time[index]) { value = this.value[index]; continue; }
        value = this.value[index];
        touch(bucket);
      }
      touch(buckets - 1);
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
    }

    // Index of the last step at or before `time`.
    index(time) {
      let [low, high] = [0, this.time.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.time[middle] <= time) low = middle + 1; else high = middle;
      }
      return low - 1;
    }

    at(time) {
      const index = this.index(time);
      return index < 0 ? 0 : this.value[index];
    }
  }

  // Rows of intervals one after the other, given by gaps and lengths.
  const rows = (gaps, lengths, counts) => {
    const result = [];
    let index = 0;
    for (const count of counts) {
      const [from, to] = [new Float64Array(count), new Float64Array(count)];
      let now = 0;
      for (let row = 0; row < count; row++, index++) {
        from[row] = now += gaps[index];
        to[row] = now += lengths[index];
      }
      result.push({ from, to });
    }
    return result;
  };

  const model = (buffer) => {
    const head = unpack(buffer);
    const { columns, end } = head;
    let first = 0;
    const cut = (column, count) => column.subarray(first, first + count);
    const lanes = rows(columns.gap, columns.length, columns.stints).map(({ from, to }, cpu) => {
      const count = columns.stints[cpu];
      const lane = new Lane(from, to, cut(columns.task, count), end);
      lane.wait = cut(columns.wait, count);
      lane.reason = cut(columns.reason, count);
      first += count;
      return lane;
    });
    const [unserved] = [columns.late ?? []];
    const total = lanes.reduce((sum, lane) => sum + lane.from.length, 0);
    const [begin, stop] = [new Float64Array(total), new Float64Array(total)];
    const waits = [], served = [];
    let place = 0;
    for (const lane of lanes) {
      begin.set(lane.from, place);
      stop.set(lane.to, place);
      place += lane.from.length;
      for (let index = 0; index < lane.from.length; index++) {
        if (!lane.wait[index]) continue;
        waits.push(lane.from[index] - lane.wait[index]);
        served.push(lane.from[index]);
      }
    }
    for (const from of unserved) waits.push(from);
    const at = (list) => Float64Array.from(list);
    const bad = rows(columns.bad_gap, columns.bad_length, [columns.bad_gap.length])[0];
    const locks = rows(columns.lock_gap, columns.lock_length, columns.locks);
    const chain = rows(columns.chain_gap, columns.chain_length, [columns.chain_gap.length])[0];
    Object.assign(chain, { task: columns.chain_task, kind: columns.chain_kind });
    return {
      ...head, lanes, bad, locks, chain,
      running: new Steps(begin, stop, end), waiting: new Steps(at(waits), at(served), end),
    };
  };

  return { model, NONE };
})();
