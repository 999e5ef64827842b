//! Gives the desk's static files a version made from their content, so that browsers can keep them for ever.

use std::hash::{DefaultHasher, Hash, Hasher};

fn main() {
    version("DESK_VERSION", &["desk.css", "desk-charts.css", "desk-lists.css", "desk-detail.css"]);
    version("DESK_SCRIPT_VERSION", &["desk.js"]);
}

fn version(variable: &str, files: &[&str]) {
    let mut hasher = DefaultHasher::new();
    for file in files.iter().map(|file| format!("../static/{file}")) {
        println!("cargo::rerun-if-changed={file}");
        std::fs::read(file).unwrap_or_default().hash(&mut hasher);
    }
    println!("cargo::rustc-env={variable}={:016x}", hasher.finish());
}
