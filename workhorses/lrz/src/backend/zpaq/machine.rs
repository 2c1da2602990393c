// SPDX-License-Identifier: MIT OR Apache-2.0
//! ZPAQL virtual machine: runs the programs that compute contexts and postprocess decoded bytes.

use crate::backend::corrupt;
use std::io;

/// Maximum number of instructions per input byte, so that every program terminates. Real programs take fewer than 200
/// (up to 1000 to undo a code filter).
const MOST_STEPS: u32 = 1 << 16;
/// Maximum array size, as a power of two.
pub const MOST_BITS: u8 = 28;

/// A program with its registers and arrays.
pub struct Machine {
    code: Vec<u8>,
    a: u32,
    b: u32,
    c: u32,
    d: u32,
    flag: bool,
    registers: [u32; 256],
    bytes: Vec<u8>,
    words: Vec<u32>,
}

/// Allocates an array of `of_each` * 2^`bits` values.
pub fn array<T: Clone + Default>(bits: u8, of_each: usize) -> io::Result<Vec<T>> {
    let out_of_memory = || io::Error::from(io::ErrorKind::OutOfMemory);
    if bits > MOST_BITS {
        return Err(out_of_memory());
    }
    let length = of_each.checked_shl(u32::from(bits)).ok_or_else(out_of_memory)?;
    let mut values = Vec::new();
    values.try_reserve_exact(length).map_err(|_| out_of_memory())?;
    values.resize(length, T::default());
    Ok(values)
}

impl Machine {
    /// Creates a machine for `code` with an array of 2^`words` words and one of 2^`bytes` bytes.
    pub fn new(code: &[u8], words: u8, bytes: u8) -> io::Result<Machine> {
        let (bytes, words) = (array(bytes, 1)?, array(words, 1)?);
        let code = code.to_vec();
        Ok(Machine { code, a: 0, b: 0, c: 0, d: 0, flag: false, registers: [0; 256], bytes, words })
    }

    /// Word `index` of the word array, which holds the contexts.
    pub fn word(&self, index: usize) -> u32 {
        self.words[index & (self.words.len() - 1)]
    }

    fn byte_at(&mut self, at: u32) -> &mut u8 {
        let mask = self.bytes.len() - 1;
        &mut self.bytes[at as usize & mask]
    }

    fn word_at(&mut self, at: u32) -> &mut u32 {
        let mask = self.words.len() - 1;
        &mut self.words[at as usize & mask]
    }

    /// Runs the program from its start with `input` in register A.
    pub fn run(&mut self, input: u32, output: &mut Vec<u8>) -> io::Result<()> {
        self.a = input;
        let mut at = 0;
        for _ in 0..MOST_STEPS {
            let code = self.fetch(&mut at)?;
            match code {
                56 => return Ok(()),
                57 => output.push(self.a as u8),
                59 => {
                    let byte = u32::from(*self.byte_at(self.b));
                    self.a = self.a.wrapping_add(byte).wrapping_add(512).wrapping_mul(773);
                }
                60 => {
                    let a = self.a;
                    let word = self.word_at(self.d);
                    *word = word.wrapping_add(a).wrapping_add(512).wrapping_mul(773);
                }
                39 | 47 | 63 => {
                    let offset = self.fetch(&mut at)?;
                    if code == 63 || self.flag == (code == 39) {
                        at = at.wrapping_add_signed(isize::from(offset as i8));
                    }
                }
                255 => {
                    at = usize::from(self.fetch(&mut at)?) | usize::from(self.fetch(&mut at)?) << 8;
                }
                0..=63 => self.single(code, &mut at)?,
                64..=119 => {
                    let value = self.source(code & 7, &mut at)?;
                    self.assign(code >> 3 & 7, value);
                }
                128..=239 => {
                    let value = self.source(code & 7, &mut at)?;
                    self.calculate(code >> 3, value);
                }
                _ => return Err(corrupt("unknown ZPAQL instruction")),
            }
        }
        Err(corrupt("the ZPAQL program exceeds 65536 instructions per byte"))
    }

    fn fetch(&self, at: &mut usize) -> io::Result<u8> {
        let byte = *self.code.get(*at).ok_or_else(|| corrupt("the ZPAQL program runs past the end of its code"))?;
        *at += 1;
        Ok(byte)
    }

    /// Value of the operand with this number: a register, a memory location or an immediate byte.
    fn source(&mut self, which: u8, at: &mut usize) -> io::Result<u32> {
        Ok(match which {
            0 => self.a,
            1 => self.b,
            2 => self.c,
            3 => self.d,
            4 => u32::from(*self.byte_at(self.b)),
            5 => u32::from(*self.byte_at(self.c)),
            6 => *self.word_at(self.d),
            _ => u32::from(self.fetch(at)?),
        })
    }

    fn assign(&mut self, which: u8, value: u32) {
        match which {
            0 => self.a = value,
            1 => self.b = value,
            2 => self.c = value,
            3 => self.d = value,
            4 => *self.byte_at(self.b) = value as u8,
            5 => *self.byte_at(self.c) = value as u8,
            _ => *self.word_at(self.d) = value,
        }
    }

    /// Executes a single-operand instruction: swap with A, increment, decrement, complement, clear, or register load
    /// and store.
    fn single(&mut self, code: u8, at: &mut usize) -> io::Result<()> {
        let which = code >> 3;
        let unknown = || corrupt("unknown ZPAQL instruction");
        if code == 55 {
            let number = self.fetch(at)?;
            self.registers[usize::from(number)] = self.a;
            return Ok(());
        }
        if code & 7 == 7 && which < 4 {
            let number = self.fetch(at)?;
            self.assign(which, self.registers[usize::from(number)]);
            return Ok(());
        }
        if which > 6 {
            return Err(unknown());
        }
        let value = self.source(which, at)?;
        let new = match code & 7 {
            0 if which > 0 => {
                let a = self.a;
                // A byte of memory is swapped with the lowest byte of A.
                let kept = if which == 4 || which == 5 { a & !255 } else { 0 };
                self.a = kept | value;
                a
            }
            1 => value.wrapping_add(1),
            2 => value.wrapping_sub(1),
            3 => !value,
            4 => 0,
            _ => return Err(unknown()),
        };
        self.assign(which, new);
        Ok(())
    }

    fn calculate(&mut self, operation: u8, x: u32) {
        let a = self.a;
        match operation {
            16 => self.a = a.wrapping_add(x),
            17 => self.a = a.wrapping_sub(x),
            18 => self.a = a.wrapping_mul(x),
            19 => self.a = a.checked_div(x).unwrap_or(0),
            20 => self.a = a.checked_rem(x).unwrap_or(0),
            21 => self.a = a & x,
            22 => self.a = a & !x,
            23 => self.a = a | x,
            24 => self.a = a ^ x,
            25 => self.a = a.wrapping_shl(x),
            26 => self.a = a.wrapping_shr(x),
            27 => self.flag = a == x,
            28 => self.flag = a < x,
            _ => self.flag = a > x,
        }
    }
}
