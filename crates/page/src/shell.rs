// SPDX-License-Identifier: GPL-2.0-only
//! What the short pages have in common: head, style, script and security policy.

use crate::{SCRIPT, STYLE, policy};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// A page with this title and these sections.
pub fn shell(version: &str, title: &str, sections: &Markup) -> String {
    let body = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content={ "weir " (version) };
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { h1 { (title) } p.quiet { "By weir " (version) "." } }
                main { (sections) }
                div #tip role="status" aria-live="polite" hidden {}
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    body.into_string()
}
