// SPDX-License-Identifier: GPL-2.0-only
//! `playground-page [MODULE.wasm] DIRECTORY`: packs the module of `crates/playground`, the policies and the shipped
//! recordings into one page, `index.html`, which works from a file and from any static server; and makes the slides of the
//! course, `slides.html`. `make playground` and `make slides` run it.
//!
//! The page shares style sheet and scripts with the report pages: they are read from `crates/page/assets`. It depends on
//! no crate of the simulator, as those are compiled for WebAssembly only.

mod lesson;
mod slides;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use lesson::Lesson;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io::Write;
use std::path::Path;
use std::{env, fs};

const STYLE: &str = concat!(include_str!("../../page/assets/style.css"), include_str!("../assets/playground.css"));
const SCRIPT: &str = concat!(
    include_str!("../../page/assets/model.js"),
    include_str!("../../page/assets/timeline.js"),
    include_str!("../../page/assets/page.js"),
    include_str!("../assets/form.js"),
    include_str!("../assets/playground.js")
);
const SLIDES_STYLE: &str = concat!(include_str!("../../page/assets/style.css"), include_str!("../assets/slides.css"));
const SLIDES_SCRIPT: &str = include_str!("../assets/slides.js");
/// Script of the workers that run the simulator.
const WORKER: &str = include_str!("../assets/worker.js");
const BODY: &str = include_str!("../assets/body.html");

/// Pages of the course. Their workloads and runs are part of the page.
const LESSONS: [&str; 8] = [
    include_str!("../../../docs/course/starvation.md"),
    include_str!("../../../docs/course/convoy.md"),
    include_str!("../../../docs/course/inversion.md"),
    include_str!("../../../docs/course/queues.md"),
    include_str!("../../../docs/course/memory.md"),
    include_str!("../../../docs/course/threads.md"),
    include_str!("../../../docs/course/shares.md"),
    include_str!("../../../docs/course/gangs.md"),
];

/// Shipped recordings by name.
const RECORDINGS: [(&str, &[u8], &str); 3] = [
    ("build", include_bytes!("../../../workloads/recorded/build.weir"), "make -j of a C program, recorded"),
    ("desktop", include_bytes!("../../../workloads/recorded/desktop.weir"), "a desktop session, recorded"),
    ("wide", include_bytes!("../../../workloads/recorded/wide.weir"), "a build with many short jobs, recorded"),
];

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (module, directory) = match &arguments[..] {
        [directory] => (None, directory),
        [module, directory] => (Some(module), directory),
        _ => bail!("expected the path of a module, if the playground is to be made, and the directory to write to"),
    };
    if let Some(path) = module {
        let module = fs::read(path).with_context(|| path.clone())?;
        if !module.starts_with(b"\0asm") {
            bail!("{path}: expected a WebAssembly module");
        }
        let text = text(&module)?;
        let all = write(directory, "index.html", &text)?;
        println!("{all} KiB, of which {} KiB are the module", packed(&module)?.len() >> 10);
    }
    println!("{} KiB", write(directory, "slides.html", &slides())?);
    Ok(())
}

/// Writes a page, and returns its path with its size in KiB.
fn write(directory: &str, name: &str, text: &str) -> Result<String> {
    let path = Path::new(directory).join(name);
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    Ok(format!("{}: {}", path.display(), text.len() >> 10))
}

/// The page of the slides.
fn slides() -> String {
    let body = html! {
        main { (slides::all(&LESSONS)) }
        p id="place" {}
    };
    document("Weir: slides of the course", SLIDES_STYLE, SLIDES_SCRIPT, ("", ""), &body)
}

/// The page with this module.
fn text(module: &[u8]) -> Result<String> {
    let (manifest, files) = bundle();
    let body = html! {
        (PreEscaped(BODY))
        (data("module", module)?)
        (data("files", &files)?)
        (data("manifest", manifest.as_bytes())?)
        (data("worker", WORKER.as_bytes())?)
    };
    let allowed = ("'wasm-unsafe-eval'", "img-src data:; worker-src blob:;");
    Ok(document("Weir playground", STYLE, SCRIPT, allowed, &body))
}

/// A page that loads nothing. `allowed`: what its scripts may do beyond that, and other sources.
fn document(title: &str, style: &str, script: &str, allowed: (&str, &str), body: &Markup) -> String {
    // Browsers check the hash of a script in their own decoding of the page, in which the line ends are as here.
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}' {}; {} base-uri 'none'; form-action 'none'",
        BASE64.encode(Sha256::digest(script)),
        allowed.0,
        allowed.1
    );
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(style)) }
            }
            body {
                (body)
                script { (PreEscaped(script)) }
            }
        }
    };
    page.into_string()
}

/// All files, one after another, and their description: names and lengths of the files, and what the page lists.
fn bundle() -> (String, Vec<u8>) {
    let (mut bytes, mut files) = (Vec::new(), Vec::new());
    let mut add = |name: String, file: &[u8]| {
        bytes.extend_from_slice(file);
        files.push(json!([name, file.len()]));
    };
    for policy in policies::all() {
        add(format!("{}.bpf.o", policy.name), policy.object);
        add(format!("{}.toml", policy.name), policy.profile.as_bytes());
    }
    for (name, recording, _) in RECORDINGS {
        add(name.to_owned(), recording);
    }
    let mut exercises = Vec::new();
    let lessons: Vec<Lesson<'_>> = LESSONS.iter().map(|text| Lesson::of(text)).collect();
    for lesson in &lessons {
        for (name, text) in &lesson.files {
            add(name.clone(), text.as_bytes());
            exercises.push(json!({ "name": name, "summary": format!("of the lesson {:?}", lesson.title) }));
        }
    }
    let lessons: Vec<Value> = lessons.iter().map(Lesson::to_json).collect();
    let schedulers: Vec<&str> = policies::all().iter().map(|policy| policy.name).collect();
    let recordings = RECORDINGS.map(|(name, _, summary)| json!({ "name": name, "summary": summary }));
    let version = env!("CARGO_PKG_VERSION");
    let manifest = json!({
        "version": version, "files": files, "schedulers": schedulers, "recordings": recordings, "lessons": lessons,
        "exercises": exercises,
    });
    (manifest.to_string(), bytes)
}

/// An element that contains data, compressed. It is decoded by `unpack` of `playground.js`.
fn data(id: &str, bytes: &[u8]) -> Result<PreEscaped<String>> {
    let (packed, id) = (BASE64.encode(packed(bytes)?), format!("packed-{id}"));
    Ok(html! { script id=(id) type="text/plain" { (PreEscaped(packed)) } })
}

fn packed(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_contains_no_address_and_its_policy_fits_its_script() {
        let page = text(b"\0asm").unwrap();
        let script = page.rsplit_once("<script>").unwrap().1.split_once("</script>").unwrap().0;
        assert!(page.contains(&format!("'sha256-{}'", BASE64.encode(Sha256::digest(script)))));
        let own = page.replace("http://www.w3.org/", "").replace("http-equiv", "");
        assert!(!own.contains("http"), "a page without a network has no addresses");
    }

    #[test]
    fn bundle_has_the_objects_and_profiles_of_all_policies() {
        let (manifest, bytes) = bundle();
        let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
        let files = manifest["files"].as_array().unwrap();
        let sum: u64 = files.iter().map(|file| file[1].as_u64().unwrap()).sum();
        assert_eq!(sum, bytes.len() as u64);
        let exercises = manifest["exercises"].as_array().unwrap().len();
        assert_eq!(files.len(), 2 * policies::all().len() + RECORDINGS.len() + exercises);
        assert_eq!(files[0][0], format!("{}.bpf.o", policies::all()[0].name));
        assert_eq!(bytes[..4], *b"\x7fELF");
    }
}
