//! The read model in memory, for tests.

use rusqlite::Connection;

/// As its migrations make it.
pub(crate) fn read_model() -> Connection {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let model = Connection::open_in_memory().unwrap();
    for file in files {
        model.execute_batch(&std::fs::read_to_string(file).unwrap()).unwrap();
    }
    model
}
