//! Gives the lab's script a version made from its content, so that browsers can keep it for ever.

use std::hash::{DefaultHasher, Hash, Hasher};

fn main() {
    let file = "../static/lab.js";
    println!("cargo::rerun-if-changed={file}");
    let mut hasher = DefaultHasher::new();
    std::fs::read(file).unwrap_or_default().hash(&mut hasher);
    println!("cargo::rustc-env=LAB_VERSION={:016x}", hasher.finish());
}
