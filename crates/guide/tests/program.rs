//! The program as the build of the Workers calls it. That this test asks for it is also why cargo builds it with the tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(arguments: &[&Path]) -> std::io::Result<Output> {
    Command::new(env!("CARGO_BIN_EXE_write-guide")).args(arguments).output()
}

#[test]
fn it_writes_the_documents_of_a_repository() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("guide");
    let _ = std::fs::remove_dir_all(&folder);
    let output = run(&[&repository, &folder]).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let pages: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert!(pages.iter().any(|page| page.starts_with("protocol")), "{pages:?}");
}

#[test]
fn it_says_what_it_needs_and_what_is_not_there() {
    assert!(!run(&[]).unwrap().status.success());
    let nowhere = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no repository");
    assert!(!run(&[&nowhere, &nowhere]).unwrap().status.success());
}
