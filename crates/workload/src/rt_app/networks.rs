// SPDX-License-Identifier: GPL-2.0-only
//! Event of networks: the extension `call`.
//!
//! ```json
//! {"tasks": {"t": {"call": {"network": "eth0", "bytes": 200, "reply": 16384}}}}
//! ```

use super::document::{Fault, Object, integer};
use crate::io::MAX_IO_BYTES;
use crate::json::{Kind, Member};
use crate::{NetworkCall, NetworkId};

/// Reads `call`. Returns the name of the network, and the call without its number. A number stands for the lengths of both
/// the call and its answer.
pub(super) fn event<'a>(what: &str, member: &'a Member) -> Result<(&'a str, NetworkCall), Fault> {
    let bytes = |key: &str, value| integer(key, value, 1..=MAX_IO_BYTES as i64).map(|bytes| bytes as u64);
    let call = |bytes, reply| NetworkCall { network: NetworkId(0), bytes, reply };
    if let Kind::Integer(_) = member.value.kind {
        let length = bytes(&member.key, &member.value)?;
        return Ok(("", call(length, length)));
    }
    let mut object = Object::new(format!("{what}, {:?}", member.key), member.at, &member.value)?;
    let length = bytes("bytes", &object.required("bytes")?.value)?;
    let reply = match object.optional("reply")? {
        Some(reply) => bytes("reply", &reply.value)?,
        None => length,
    };
    let network = object.string("network")?.map_or("", |(_, name)| name);
    object.finish()?;
    Ok((network, call(length, reply)))
}
