//! Gives the static files a version made from their content, so that browsers can keep them for ever.

use std::hash::{DefaultHasher, Hash, Hasher};

fn main() {
    version("STYLE_VERSION", &["style.css", "controls.css", "home.css", "forms.css", "order.css"]);
    version("SCRIPT_VERSION", &["app.js"]);
}

fn version(variable: &str, files: &[&str]) {
    let mut hasher = DefaultHasher::new();
    for file in files.iter().map(|file| format!("../../static/{file}")) {
        println!("cargo::rerun-if-changed={file}");
        std::fs::read(file).unwrap_or_default().hash(&mut hasher);
    }
    println!("cargo::rustc-env={variable}={:016x}", hasher.finish());
}
