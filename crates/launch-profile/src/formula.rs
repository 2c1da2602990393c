// SPDX-License-Identifier: GPL-2.0-only
//! Arithmetic on machine values before they are written: half the number of CPUs, the opposite of each CPU.

use crate::{Constant, Source};
use machine_model::Machine;

/// An integer operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Times,
    Plus,
    Over,
    Modulo,
}

/// Names of the operations in a profile, in order of evaluation.
pub(crate) const OPERATIONS: [(&str, Operation); 4] =
    [("times", Operation::Times), ("plus", Operation::Plus), ("over", Operation::Over), ("modulo", Operation::Modulo)];

/// A number or table of the machine, and the operations applied to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formula {
    pub(crate) source: Source,
    /// In the order of [`OPERATIONS`].
    pub(crate) operations: Vec<(Operation, Constant)>,
}

impl Formula {
    /// Result on `machine`: a table if the source is a table. The error tells what cannot be computed.
    pub(crate) fn on(&self, machine: &Machine) -> Result<Constant, String> {
        let first = self.source.of(machine);
        self.operations.iter().try_fold(first, |left, (operation, right)| operation.apply(&left, &right.on(machine)?))
    }
}

impl Operation {
    /// Applies the operation to each entry of a table, with a single right operand or with one per entry.
    fn apply(self, left: &Constant, right: &Constant) -> Result<Constant, String> {
        let entries: Vec<Constant> = match (left, right) {
            (Constant::Integer(left), Constant::Integer(right)) => return self.number(*left, *right),
            (Constant::Array(left), Constant::Array(right)) if left.len() == right.len() => {
                left.iter().zip(right).map(|(left, right)| self.apply(left, right)).collect::<Result<_, _>>()?
            }
            (Constant::Array(left), Constant::Integer(_)) => {
                left.iter().map(|left| self.apply(left, right)).collect::<Result<_, _>>()?
            }
            _ => return Err(format!("`{}` takes numbers, or tables of the same length", self.name())),
        };
        Ok(Constant::Array(entries))
    }

    fn number(self, left: i128, right: i128) -> Result<Constant, String> {
        let result = match self {
            Operation::Times => left.checked_mul(right),
            Operation::Plus => left.checked_add(right),
            Operation::Over => left.checked_div_euclid(right),
            Operation::Modulo => left.checked_rem_euclid(right),
        };
        let name = self.name();
        result.map(Constant::Integer).ok_or_else(|| format!("{left} {name} {right} has no result on this machine"))
    }

    fn name(self) -> &'static str {
        OPERATIONS.iter().find(|(_, operation)| *operation == self).expect("every operation has a name").0
    }
}
