// SPDX-License-Identifier: GPL-2.0-only
//! Parts that all pages have in common: head, style sheet, scripts and security policy.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("../assets/style.css");
const SCRIPT: &str = concat!(
    include_str!("../assets/model.js"),
    include_str!("../assets/timeline.js"),
    include_str!("../assets/page.js"),
    "Page.enliven(document);\nPage.start();\n"
);

/// Parts in which pages differ.
pub struct Parts<'a> {
    /// Version of the program.
    pub version: &'a str,
    /// Title in the browser's tab.
    pub title: &'a str,
    /// Elements at the end of `head`.
    pub head: Markup,
    /// Content of `header`.
    pub header: Markup,
    /// Content of `main`.
    pub main: Markup,
}

/// A page of these parts.
pub fn shell(parts: &Parts<'_>) -> String {
    let body = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content={ "weir " (parts.version) };
                title { (parts.title) }
                style { (PreEscaped(STYLE)) }
                (parts.head)
            }
            body {
                header { (parts.header) }
                main { (parts.main) }
                div #tip role="status" aria-live="polite" hidden {}
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    body.into_string()
}

/// A page with this title and these sections, and nothing else.
pub fn short(version: &str, title: &str, main: Markup) -> String {
    let header = html! { h1 { (title) } p.quiet { "By weir " (version) "." } };
    shell(&Parts { version, title, head: html! {}, header, main })
}

/// Security policy of a page: it runs only its own script, and loads and sends nothing.
fn policy() -> String {
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{}'; base-uri 'none'; \
         form-action 'none'",
        BASE64.encode(Sha256::digest(SCRIPT))
    )
}
