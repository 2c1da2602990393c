// SPDX-License-Identifier: GPL-2.0-only
//! Scalability laws, fitted to the throughput of one workload at several numbers of CPUs, jobs or clients.
//!
//! 1. Gunther's universal scalability law is X(N) = γ N / (1 + α (N - 1) + β N (N - 1)). γ is the throughput at N = 1, α
//!    the share of the work that is serialized (contention), β the cost that each pair of participants causes
//!    (coherency, crosstalk). With β = 0 it is Amdahl's law, whose limit is γ / α.
//! 2. The parameters are fitted by least squares within γ >= 0 and 0 <= α, β <= 1 (Levenberg and Marquardt, crate
//!    `rmpfit`). Standard errors come from the Jacobian at the solution and the residual variance; intervals use
//!    Student's t with the fit's degrees of freedom.
//! 3. A throughput maximum is at N = √((1 - α) / β). It exists only if the interval of β excludes 0: otherwise the data
//!    have no peak, and a number for it would be an artefact.
//! 4. Fewer than six points are refused: three parameters leave too few degrees of freedom for any interval.
//!
//! The law summarizes a curve. It is no mechanism: that a fit has a large β says that each participant slows the others
//! down, not through which lock or cache line.

mod fit;
mod json;
mod points;
mod text;

pub use fit::{Fit, Parameters, Part, Peak, Share, fit};
pub use json::to_json;
pub use points::{Point, read_csv, to_csv};
pub use text::{plot, to_text};

/// Fewest points that can be fitted.
pub const FEWEST_POINTS: usize = 6;

/// Level of confidence of all intervals.
pub const LEVEL: f64 = 0.95;

/// A reason why points cannot be read or fitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScalingError {
    /// The text is not a table of points.
    #[error("line {line}: {problem}")]
    Table {
        /// Line, from 1.
        line: u64,
        /// What is wrong, and what was expected.
        problem: String,
    },
    /// There are fewer than [`FEWEST_POINTS`] points.
    #[error(
        "{0} points; a law with three parameters needs at least {FEWEST_POINTS}, because fewer leave no degrees of \
         freedom to judge the fit: measure more sizes"
    )]
    TooFew(usize),
    /// The points have too few different sizes.
    #[error("{0} different values of n; a law with three parameters needs at least 4: measure more sizes")]
    TooFewSizes(usize),
    /// The least-squares search failed, or the parameters cannot be told apart.
    #[error("the law cannot be fitted to these points: {0}")]
    NoFit(String),
}
