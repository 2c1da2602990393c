// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bit-prediction model: components that each predict the next bit from their context or from earlier components'
//! predictions.

use super::machine::{Machine, array};
use super::tables::{Tables, tables};
use crate::backend::corrupt;
use std::io;

/// Maximum memory of all components, in bytes; lrzip's largest model takes 246 MB.
const MOST_MEMORY: u64 = 320 << 20;

/// Component type with its parameters from the header.
enum Kind {
    Constant,
    Counter,
    History,
    Match { size: u8 },
    Average { of: [usize; 2], weight: i32 },
    Mix2 { of: [usize; 2], rate: i32, mask: u32 },
    Mix { first: usize, count: usize, rate: i32, mask: u32 },
    Chain { of: usize },
    Refine { of: usize },
}

/// A component and its learned state. Fields used between prediction and update keep the names of the ZPAQ
/// specification where no better short name exists.
struct Component {
    kind: Kind,
    limit: u32,
    context: usize,
    slot: usize,
    /// Counters, weights or match positions.
    words: Vec<u32>,
    /// Bit histories, or the history buffer of a match component.
    bytes: Vec<u8>,
    length: u32,
    offset: u32,
    size_bits: u8,
}

/// All components of a block's model.
pub struct Model {
    components: Vec<Component>,
    predictions: Vec<i32>,
    contexts: Vec<u32>,
    program: Machine,
    /// Bits of the current byte so far, after a leading 1.
    partial: u32,
    /// The same bits as two nibbles: index of the bit history within its slot.
    nibble: u32,
    discarded_output: Vec<u8>,
    tables: &'static Tables,
}

fn clamp2k(x: i32) -> i32 {
    x.clamp(-2048, 2047)
}

fn clamp512k(x: i32) -> i32 {
    x.clamp(-(1 << 19), (1 << 19) - 1)
}

impl Model {
    /// Creates the model from a block header that begins at the program's array sizes.
    pub fn new(header: &[u8]) -> io::Result<Model> {
        let short = || corrupt("truncated ZPAQ header");
        let [words, bytes, _, _, count, rest @ ..] = header else { return Err(short()) };
        let tables = tables();
        let mut rest = rest;
        let (mut components, mut predictions, mut memory) = (Vec::new(), Vec::new(), 0);
        for index in 0..usize::from(*count) {
            let kind = *rest.first().ok_or_else(short)?;
            // Length of a component's header entry by component type.
            let length = *[0, 2, 3, 2, 3, 4, 6, 6, 3, 5]
                .get(usize::from(kind))
                .filter(|length| **length > 0)
                .ok_or_else(|| corrupt("unknown ZPAQ component"))?;
            let (line, after) = rest.split_at_checked(length).ok_or_else(short)?;
            rest = after;
            memory += memory_of(line);
            if memory > MOST_MEMORY {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            components.push(Component::new(line, index, tables)?);
            predictions.push(if kind == 1 { (i32::from(line[1]) - 128) * 4 } else { 0 });
        }
        if components.is_empty() {
            return Err(corrupt("the ZPAQ block has no model"));
        }
        let [0, code @ ..] = rest else { return Err(short()) };
        let contexts = vec![0; components.len()];
        let program = Machine::new(code, *words, *bytes)?;
        let (partial, nibble, discarded_output) = (1, 1, Vec::new());
        Ok(Model { components, predictions, contexts, program, partial, nibble, discarded_output, tables })
    }

    /// Probability that the next bit is 1, as a 15-bit fraction.
    pub fn predict(&mut self) -> u32 {
        let fresh = self.partial == 1 || self.partial & 0xF0 == 16;
        for index in 0..self.components.len() {
            let context = self.contexts[index];
            let component = &mut self.components[index];
            let p = component.predict(&self.predictions, context, self.partial, self.nibble, fresh, self.tables);
            if let Some(p) = p {
                self.predictions[index] = p;
            }
        }
        self.tables.squash(*self.predictions.last().expect("a component")) as u32
    }

    /// Updates all components with the decoded bit; after eight bits computes the contexts of the next byte.
    pub fn update(&mut self, bit: u32) -> io::Result<()> {
        for (index, component) in self.components.iter_mut().enumerate() {
            component.update(bit, index, &self.predictions, self.contexts[index], self.nibble, self.tables);
        }
        self.partial = self.partial << 1 | bit;
        if self.partial >= 256 {
            self.program.run(self.partial - 256, &mut self.discarded_output)?;
            self.discarded_output.clear();
            (self.partial, self.nibble) = (1, 1);
            for (index, context) in self.contexts.iter_mut().enumerate() {
                *context = self.program.word(index);
            }
        } else if (16..32).contains(&self.partial) {
            self.nibble = (self.nibble & 15) << 5 | bit << 4 | 1;
        } else {
            self.nibble = self.nibble & 0x1F0 | ((self.nibble & 15) * 2 + bit) & 15;
        }
        Ok(())
    }
}

/// Memory of a component in bytes, from its header entry.
fn memory_of(line: &[u8]) -> u64 {
    let size = |at: usize, each: u64| each << line[at].min(40);
    match line[0] {
        2 => size(1, 4),
        3 => size(1, 64),
        4 => size(1, 4) + size(2, 1),
        6 => size(1, 4),
        7 => size(1, 4 * u64::from(line[3])),
        8 => size(1, 64),
        9 => size(1, 128),
        _ => 0,
    }
}

impl Component {
    fn new(line: &[u8], index: usize, tables: &Tables) -> io::Result<Component> {
        let before = |at: usize| {
            let other = usize::from(line[at]);
            if other < index { Ok(other) } else { Err(corrupt("a ZPAQ component reads a later one")) }
        };
        let mut words = Vec::new();
        let mut bytes = Vec::new();
        let mut limit = 0;
        let kind = match line[0] {
            1 => Kind::Constant,
            2 => {
                words = array(line[1], 1)?;
                words.fill(1 << 31);
                limit = u32::from(line[2]) * 4;
                Kind::Counter
            }
            3 => {
                bytes = array(line[1], 64)?;
                words = (0..256).map(|state| tables.states.probability(state)).collect();
                Kind::History
            }
            4 => {
                words = array(line[1], 1)?;
                bytes = array(line[2], 1)?;
                bytes[0] = 1;
                Kind::Match { size: line[2] }
            }
            5 => Kind::Average { of: [before(1)?, before(2)?], weight: i32::from(line[3]) },
            6 => {
                words = array(line[1], 1)?;
                words.fill(32768);
                Kind::Mix2 { of: [before(2)?, before(3)?], rate: line[4].into(), mask: line[5].into() }
            }
            7 => {
                let (first, count) = (before(2)?, usize::from(line[3]));
                if count == 0 || first + count > index {
                    return Err(corrupt("a ZPAQ mixer reads a later component"));
                }
                words = array(line[1], count)?;
                words.fill(65536 / count as u32);
                Kind::Mix { first, count, rate: line[4].into(), mask: line[5].into() }
            }
            8 => {
                bytes = array(line[1], 64)?;
                for state in 0..256 {
                    let p = (tables.states.probability(state) >> 8) as i32;
                    words.extend([1 << 15, clamp512k(tables.stretch(p) * 1024) as u32]);
                }
                Kind::Chain { of: before(2)? }
            }
            _ => {
                words = array(line[1], 32)?;
                for (at, word) in words.iter_mut().enumerate() {
                    *word = (tables.squash((at as i32 & 31) * 64 - 992) as u32) << 17 | u32::from(line[3]);
                }
                limit = u32::from(line[4]) * 4;
                Kind::Refine { of: before(2)? }
            }
        };
        let size_bits = line[1];
        Ok(Component { kind, limit, context: 0, slot: 0, words, bytes, length: 0, offset: 0, size_bits })
    }

    fn predict(
        &mut self,
        p: &[i32],
        context: u32,
        partial: u32,
        nibble: u32,
        fresh: bool,
        tables: &Tables,
    ) -> Option<i32> {
        let mask = self.words.len().wrapping_sub(1);
        Some(match self.kind {
            Kind::Constant => return None,
            Kind::Counter => {
                self.context = (context ^ nibble) as usize & mask;
                tables.stretch((self.words[self.context] >> 17) as i32)
            }
            Kind::History => {
                self.find_history(context, partial, nibble, fresh);
                tables.stretch((self.words[self.context] >> 8) as i32)
            }
            Kind::Match { .. } if self.length == 0 => 0,
            Kind::Match { .. } => {
                let from = self.limit.wrapping_sub(self.offset) as usize & (self.bytes.len() - 1);
                self.slot = usize::from(self.bytes[from] >> (7 - self.context) & 1);
                let sure = tables.trust[self.length as usize];
                tables.stretch(if self.slot == 1 { -sure } else { sure } & 32767)
            }
            Kind::Average { of, weight } => (p[of[0]] * weight + p[of[1]] * (256 - weight)) >> 8,
            Kind::Mix2 { of, mask: bits, .. } => {
                self.context = context.wrapping_add(partial & bits) as usize & mask;
                let weight = self.words[self.context] as i32;
                (weight * p[of[0]] + (65536 - weight) * p[of[1]]) >> 16
            }
            Kind::Mix { first, count, mask: bits, .. } => {
                let sets = self.words.len() / count;
                self.context = (context.wrapping_add(partial & bits) as usize & (sets - 1)) * count;
                let weights = &self.words[self.context..self.context + count];
                let sum = weights.iter().zip(&p[first..]).map(|(weight, p)| (*weight as i32 >> 8) * p);
                clamp2k(sum.sum::<i32>() >> 8)
            }
            Kind::Chain { of } => {
                self.find_history(context, partial, nibble, fresh);
                let weight = &self.words[self.context * 2..self.context * 2 + 2];
                clamp2k((weight[0] as i32).wrapping_mul(p[of]).wrapping_add(weight[1] as i32 * 64) >> 16)
            }
            Kind::Refine { of } => {
                let place = (p[of] + 992).clamp(0, 1983);
                let (weight, column) = (place as u32 & 63, place as usize >> 6);
                let at = (context.wrapping_add(partial) as usize).wrapping_mul(32).wrapping_add(column);
                let (low, high) = (self.words[at & mask] >> 10, self.words[(at + 1) & mask] >> 10);
                self.context = at.wrapping_add(weight as usize >> 5) & mask;
                tables.stretch(((low * (64 - weight) + high * weight) >> 13) as i32)
            }
        })
    }

    /// Finds the slot of 16 bit histories for this nibble by its check byte; if none of three candidate slots
    /// matches, the least used one is replaced.
    fn find_history(&mut self, context: u32, partial: u32, nibble: u32, fresh: bool) {
        if fresh {
            let key = context.wrapping_add(16 * partial);
            let check = key.checked_shr(u32::from(self.size_bits) + 2).unwrap_or(0) as u8;
            let first = (key as usize).wrapping_mul(16) & (self.bytes.len() - 16);
            let slots = [first, first ^ 16, first ^ 32];
            self.slot = match slots.iter().find(|slot| self.bytes[**slot] == check) {
                Some(slot) => *slot,
                None => {
                    let used = slots.map(|slot| self.bytes[slot + 1]);
                    let slot = if used[0] <= used[1] && used[0] <= used[2] {
                        slots[0]
                    } else if used[1] < used[2] {
                        slots[1]
                    } else {
                        slots[2]
                    };
                    self.bytes[slot..slot + 16].fill(0);
                    self.bytes[slot] = check;
                    slot
                }
            };
        }
        self.context = usize::from(self.bytes[self.slot + (nibble & 15) as usize]);
    }

    fn update(&mut self, bit: u32, index: usize, p: &[i32], context: u32, nibble: u32, tables: &Tables) {
        let target = bit as i32 * 32767;
        match self.kind {
            Kind::Constant | Kind::Average { .. } => {}
            Kind::Counter | Kind::Refine { .. } => {
                let word = &mut self.words[self.context];
                let count = *word & 1023;
                let error = target - (*word >> 17) as i32;
                let change = error.wrapping_mul(tables.learning[count as usize]) & -1024;
                *word = word.wrapping_add_signed(change).wrapping_add(u32::from(count < self.limit));
            }
            Kind::History => {
                self.note(bit, nibble, tables);
                let word = &mut self.words[self.context];
                *word = word.wrapping_add_signed((target - (*word >> 8) as i32) >> 2);
            }
            Kind::Match { size } => self.follow(bit, context, size),
            Kind::Mix2 { of, rate, .. } => {
                let error = ((target - tables.squash(p[index])) * rate) >> 5;
                let change = (error * (p[of[0]] - p[of[1]]) + (1 << 12)) >> 13;
                let word = &mut self.words[self.context];
                *word = (*word as i32 + change).clamp(0, 65535) as u32;
            }
            Kind::Mix { first, count, rate, .. } => {
                let error = ((target - tables.squash(p[index])) * rate) >> 4;
                for (weight, p) in self.words[self.context..self.context + count].iter_mut().zip(&p[first..]) {
                    *weight = clamp512k(*weight as i32 + ((error * p + (1 << 12)) >> 13)) as u32;
                }
            }
            Kind::Chain { of } => {
                let error = target - tables.squash(p[index]);
                let weight = &mut self.words[self.context * 2..self.context * 2 + 2];
                weight[0] = clamp512k(weight[0] as i32 + ((error * p[of] + (1 << 12)) >> 13)) as u32;
                weight[1] = clamp512k(weight[1] as i32 + ((error + 16) >> 5)) as u32;
                self.note(bit, nibble, tables);
            }
        }
    }

    /// Appends a bit to the current bit history.
    fn note(&mut self, bit: u32, nibble: u32, tables: &Tables) {
        self.bytes[self.slot + (nibble & 15) as usize] = tables.states.0[self.context][bit as usize];
    }

    /// Appends the bit to the history buffer; after eight bits looks up where the current context occurred before.
    fn follow(&mut self, bit: u32, context: u32, size: u8) {
        if self.slot != bit as usize {
            self.length = 0;
        }
        let mask = self.bytes.len() as u32 - 1;
        let now = (self.limit & mask) as usize;
        self.bytes[now] = self.bytes[now] << 1 | bit as u8;
        self.context += 1;
        if self.context < 8 {
            return;
        }
        self.context = 0;
        self.limit = (self.limit + 1) & ((1u32 << size) - 1);
        let places = self.words.len() as u32 - 1;
        let place = (context & places) as usize;
        if self.length == 0 {
            self.offset = self.limit.wrapping_sub(self.words[place]);
            if self.offset & mask != 0 {
                let at = |back: u32| self.bytes[(self.limit.wrapping_sub(back) & mask) as usize];
                while self.length < 255
                    && at(self.length + 1) == at(self.length.wrapping_add(self.offset).wrapping_add(1))
                {
                    self.length += 1;
                }
            }
        } else {
            self.length += u32::from(self.length < 255);
        }
        self.words[place] = self.limit;
    }
}
