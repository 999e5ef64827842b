//! Gives the desk's static files a version made from their content, so that browsers can keep them for ever.

use std::hash::{DefaultHasher, Hash, Hasher};

fn main() {
    for (variable, file) in
        [("DESK_VERSION", "../static/desk.css"), ("DESK_SCRIPT_VERSION", "../static/desk.js")]
    {
        println!("cargo::rerun-if-changed={file}");
        let mut hasher = DefaultHasher::new();
        std::fs::read(file).unwrap_or_default().hash(&mut hasher);
        println!("cargo::rustc-env={variable}={:016x}", hasher.finish());
    }
}
