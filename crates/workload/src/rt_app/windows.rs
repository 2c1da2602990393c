// SPDX-License-Identifier: GPL-2.0-only
//! Extension of rt-app: `window` and `request-us` of a task. `"window": [1, 2], "request-us": 10000` means that each
//! request should complete within 10 ms, and that one of two may be late.

use super::document::{Fault, Object, wrong};
use crate::Window;
use crate::json::{Kind, Value};
use crate::window::{MOST_REQUEST_US, MOST_REQUESTS};
use ids::Nanos;

/// Reads both keys, which require each other.
pub(super) fn window(object: &mut Object<'_>) -> Result<Option<Window>, Fault> {
    let window = object.optional("window")?;
    let request = object.optional("request-us")?;
    let lacks =
        |at, has: &str, lacks: &str| Fault { at, problem: format!("{} has {has}, but no {lacks}", object.what) };
    match (window, request) {
        (None, None) => Ok(None),
        (Some(window), None) => Err(lacks(window.at, "a window", "request-us: the time that a request may take")),
        (None, Some(request)) => Err(lacks(request.at, "request-us", "window: how many requests may be late")),
        (Some(window), Some(_)) => {
            let request = object.integer("request-us", 1..=MOST_REQUEST_US)?.expect("it is there");
            let [late, of] = pair(&window.value)?;
            Ok(Some(Window { late, of, request: Nanos::from_us(request as u64) }))
        }
    }
}

fn pair(value: &Value) -> Result<[u32; 2], Fault> {
    let expected = format!("[x, y]: x of y requests may be late, from 0 to {MOST_REQUESTS}, x not above y");
    let Kind::Array(items) = &value.kind else { return Err(wrong("window", value, &expected)) };
    let number = |item: &Value| match item.kind {
        Kind::Integer(number) => u32::try_from(number).ok().filter(|number| *number <= MOST_REQUESTS),
        _ => None,
    };
    match items.iter().map(number).collect::<Vec<_>>()[..] {
        [Some(late), Some(of)] if late <= of => Ok([late, of]),
        _ => Err(wrong("window", value, &expected)),
    }
}
