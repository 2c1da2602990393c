// SPDX-License-Identifier: GPL-2.0-only
//! Compiles an `async fn` into two functions: a plain one and a coroutine.
//!
//! An `async fn` in an `impl` block marked with [`macro@two_forms`] becomes two functions:
//!
//! - a plain function of the same name, which runs to completion. The macro removes `async` and `.await` and replaces
//!   `AsyncFnOnce` by `FnOnce`, so it costs no more than ordinary code;
//! - a coroutine with the suffix `_waiting`, which is visible only in its crate. It calls the coroutines of the
//!   methods that it awaits.
//!
//! The points at which a coroutine suspends are written by hand as pairs of methods, such as an empty `stop` and an
//! `async fn stop_waiting` that suspends. All other items of the block stay unchanged.

use proc_macro::{Delimiter, Group, Ident, TokenStream, TokenTree};

/// Suffix of the coroutines.
const SUFFIX: &str = "_waiting";

/// Turns each `async fn` of an `impl` block into two functions; see the crate documentation.
#[proc_macro_attribute]
pub fn two_forms(_: TokenStream, block: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = block.into_iter().collect();
    match tokens.pop() {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => {
            tokens.push(with_contents(&body, items(body.stream())));
            tokens.into_iter().collect()
        }
        _ => "compile_error!(\"two_forms must be placed before an impl block\");".parse().expect("it is a statement"),
    }
}

/// Expands all items of a block. An item ends with a body in braces or a semicolon.
fn items(block: TokenStream) -> TokenStream {
    let (mut all, mut item) = (TokenStream::new(), Vec::new());
    for token in block {
        let ends = match &token {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            other => is_sign(Some(other), ';'),
        };
        item.push(token);
        if ends {
            all.extend(forms(&std::mem::take(&mut item)));
        }
    }
    all.extend(item);
    all
}

fn forms(item: &[TokenTree]) -> TokenStream {
    let waits = item.windows(2).any(|pair| is_word(pair.first(), "async") && is_word(pair.get(1), "fn"));
    if !waits {
        return item.iter().cloned().collect();
    }
    let mut both = plain(item);
    both.extend(coroutine(item, true));
    both
}

/// Converts an item to the plain function, which runs to completion.
fn plain(tokens: &[TokenTree]) -> TokenStream {
    let (mut output, mut rest) = (Vec::new(), tokens.iter().peekable());
    while let Some(token) = rest.next() {
        match token {
            token if is_word(Some(token), "async") => {}
            token if is_sign(Some(token), '.') && is_word(rest.peek().copied(), "await") => drop(rest.next()),
            TokenTree::Ident(name) if is_word(Some(token), "AsyncFnOnce") => {
                output.push(Ident::new("FnOnce", name.span()).into());
            }
            TokenTree::Group(group) => output.push(with_contents(group, plain(&contents(group)))),
            token => output.push(token.clone()),
        }
    }
    output.into_iter().collect()
}

/// Converts an item to the coroutine. `head` is true for the tokens of the whole item, false inside its groups.
fn coroutine(tokens: &[TokenTree], head: bool) -> TokenStream {
    let mut output = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| tokens.get(before));
        let after = |steps: usize| tokens.get(index + steps);
        let is_awaited = is_sign(before, '.') && is_sign(after(2), '.') && is_word(after(3), "await");
        match token {
            TokenTree::Group(group) => output.push(with_contents(group, coroutine(&contents(group), false))),
            TokenTree::Ident(name) if is_awaited || head && is_word(before, "fn") => {
                output.push(Ident::new(&format!("{name}{SUFFIX}"), name.span()).into());
            }
            token => output.push(token.clone()),
        }
        if head && is_word(Some(token), "pub") && !matches!(after(1), Some(TokenTree::Group(_))) {
            output.extend("(crate)".parse::<TokenStream>().expect("it is a group"));
        }
    }
    output.into_iter().collect()
}

fn contents(group: &Group) -> Vec<TokenTree> {
    group.stream().into_iter().collect()
}

/// Returns a group with the same delimiters and other contents.
fn with_contents(group: &Group, contents: TokenStream) -> TokenTree {
    let span = group.span();
    let mut group = Group::new(group.delimiter(), contents);
    group.set_span(span);
    group.into()
}

fn is_word(token: Option<&TokenTree>, word: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(name)) if name.to_string() == word)
}

fn is_sign(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(found)) if found.as_char() == sign)
}
