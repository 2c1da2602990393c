// SPDX-License-Identifier: GPL-2.0-only
//! Data embedded in a page: deflated, base64-encoded, in an element that is not executed. The encoding cannot contain
//! the end of that element.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use maud::{Markup, PreEscaped, html};
use std::io::Write;

/// An element with this id that the page's script decodes on demand.
pub fn element(id: &str, bytes: &[u8]) -> Markup {
    let mut deflate = DeflateEncoder::new(Vec::new(), Compression::new(6));
    let packed = deflate.write_all(bytes).and_then(|()| deflate.finish()).expect("memory takes it");
    html! { script id=(id) type="text/plain" { (PreEscaped(BASE64.encode(packed))) } }
}
