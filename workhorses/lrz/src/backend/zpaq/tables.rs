// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of the model, as tables that all models share.

use super::states::States;
use std::sync::OnceLock;

/// The tables.
pub struct Tables {
    /// 32768 / (1 + e^(-x/64)) for x from -2048 on.
    squash: Vec<u16>,
    /// 64 ln(p / (1 - p)) for p in 15 bits.
    stretch: Vec<i16>,
    /// How much of an error is learned after so many, in 16 bits.
    pub learning: Vec<i32>,
    /// How sure a match of so many bytes is.
    pub trust: [i32; 256],
    /// Histories of bits.
    pub states: States,
}

impl Tables {
    /// The logistic function of a prediction from -2048 to 2047.
    pub fn squash(&self, x: i32) -> i32 {
        i32::from(self.squash[(x.clamp(-2048, 2047) + 2048) as usize])
    }

    /// Its inverse, from 0 to 32767.
    pub fn stretch(&self, p: i32) -> i32 {
        i32::from(self.stretch[(p & 32767) as usize])
    }
}

/// The tables, made once.
pub fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| {
        let squash = (0..4096).map(|x| (32768.0 / (1.0 + (f64::from(x - 2048) / -64.0).exp())) as u16).collect();
        let stretch = (0..32768).map(|p| {
            let odds = (f64::from(p) + 0.5) / (32767.5 - f64::from(p));
            (odds.ln() * 64.0 + 0.5).floor() as i16
        });
        let mut trust = [0; 256];
        for (length, trust) in trust.iter_mut().enumerate().skip(1) {
            *trust = 2048 / length as i32;
        }
        Tables {
            squash,
            stretch: stretch.collect(),
            learning: (0..1024).map(|n| (1 << 17) / (n * 2 + 3) * 2).collect(),
            trust,
            states: States::new(),
        }
    })
}
