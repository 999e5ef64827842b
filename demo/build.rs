//! Gives the lab's script and its style a version made from their content, so that browsers can keep them for ever.

use std::hash::{DefaultHasher, Hash, Hasher};

fn main() {
    for (variable, file) in [("LAB_VERSION", "../static/lab.js"), ("LAB_STYLE_VERSION", "../static/lab.css")]
    {
        println!("cargo::rerun-if-changed={file}");
        let mut hasher = DefaultHasher::new();
        std::fs::read(file).unwrap_or_default().hash(&mut hasher);
        println!("cargo::rustc-env={variable}={:016x}", hasher.finish());
    }
}
