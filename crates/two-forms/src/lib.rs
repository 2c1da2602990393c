// SPDX-License-Identifier: GPL-2.0-only
//! Functions in two forms from one source.
//!
//! An `async fn` in an `impl` block marked with [`macro@two_forms`] becomes two functions:
//!
//! - one of the same name that runs to its end: without `async` and `.await`, and with `FnOnce` for `AsyncFnOnce`. It is what
//!   somebody would have written who never heard of coroutines, and costs as much;
//! - a coroutine with `_waiting` behind its name, which calls the coroutines of the methods that it awaits. Nobody outside
//!   of the crate sees it.
//!
//! Where a coroutine really waits is written by hand, as a pair of methods: `stop` that does nothing, and an `async fn
//! stop_waiting` that does. All other items of the block stay as they are.

use proc_macro::{Delimiter, Group, Ident, TokenStream, TokenTree};

/// What a coroutine has behind its name.
const SUFFIX: &str = "_waiting";

/// Makes two functions of each `async fn` in an `impl` block: see the crate.
#[proc_macro_attribute]
pub fn two_forms(_: TokenStream, block: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = block.into_iter().collect();
    match tokens.pop() {
        Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => {
            tokens.push(with_contents(&body, items(body.stream())));
            tokens.into_iter().collect()
        }
        _ => "compile_error!(\"two_forms stands before an impl block\");".parse().expect("it is a statement"),
    }
}

/// Each item of a block in the forms that it has. An item ends with a body or a semicolon.
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
    let mut both = at_once(item);
    both.extend(waiting(item, true));
    both
}

/// The form that runs to its end.
fn at_once(tokens: &[TokenTree]) -> TokenStream {
    let (mut made, mut rest) = (Vec::new(), tokens.iter().peekable());
    while let Some(token) = rest.next() {
        match token {
            token if is_word(Some(token), "async") => {}
            token if is_sign(Some(token), '.') && is_word(rest.peek().copied(), "await") => drop(rest.next()),
            TokenTree::Ident(name) if is_word(Some(token), "AsyncFnOnce") => {
                made.push(Ident::new("FnOnce", name.span()).into());
            }
            TokenTree::Group(group) => made.push(with_contents(group, at_once(&contents(group)))),
            token => made.push(token.clone()),
        }
    }
    made.into_iter().collect()
}

/// The coroutine; `head` if these are the tokens of a whole item.
fn waiting(tokens: &[TokenTree], head: bool) -> TokenStream {
    let mut made = Vec::new();
    for (place, token) in tokens.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|before| tokens.get(before));
        let after = |steps: usize| tokens.get(place + steps);
        let is_awaited = is_sign(before, '.') && is_sign(after(2), '.') && is_word(after(3), "await");
        match token {
            TokenTree::Group(group) => made.push(with_contents(group, waiting(&contents(group), false))),
            TokenTree::Ident(name) if is_awaited || head && is_word(before, "fn") => {
                made.push(Ident::new(&format!("{name}{SUFFIX}"), name.span()).into());
            }
            token => made.push(token.clone()),
        }
        if head && is_word(Some(token), "pub") && !matches!(after(1), Some(TokenTree::Group(_))) {
            made.extend("(crate)".parse::<TokenStream>().expect("it is a group"));
        }
    }
    made.into_iter().collect()
}

fn contents(group: &Group) -> Vec<TokenTree> {
    group.stream().into_iter().collect()
}

/// The same brackets around something else.
fn with_contents(group: &Group, contents: TokenStream) -> TokenTree {
    let mut made = Group::new(group.delimiter(), contents);
    made.set_span(group.span());
    made.into()
}

fn is_word(token: Option<&TokenTree>, word: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(name)) if name.to_string() == word)
}

fn is_sign(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(found)) if found.as_char() == sign)
}
