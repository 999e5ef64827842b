//! The fuzz targets, run over their seeds: see `fuzz/README.md`.

#[path = "../../fuzz/src/lib.rs"]
mod targets;

use std::path::Path;

use once::id::Owner;
use web::signing::Purpose;
use web::token::FormToken;

fn each_seed(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let seeds: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|seed| seed.unwrap().path()).collect();
    assert!(seeds.len() >= 5, "{} has too few seeds", folder.display());
    for seed in seeds {
        println!("{}", seed.display());
        run(&std::fs::read(seed).unwrap());
    }
    run(&[]);
}

#[test]
fn header_seeds_pass() {
    each_seed("header", targets::header);
}

#[test]
fn form_seeds_pass() {
    each_seed("form", targets::form);
}

#[test]
fn cookie_seeds_pass() {
    each_seed("cookie", targets::cookie);
}

#[test]
fn token_seeds_pass() {
    each_seed("token", targets::token);
}

/// Made by another implementation of the documented layout: what is sealed today opens after the next deploy.
#[test]
fn of_the_token_seeds_the_genuine_one_alone_opens() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/token");
    let (owner, keys) = (Owner::session(targets::SESSION), targets::signing_keys(targets::SIGNING_KEY));
    for seed in [
        "genuine",
        "of_an_older_version",
        "another_session",
        "another_key",
        "another_purpose",
        "cut_off",
        "padded",
        "unsigned",
    ] {
        let text = std::fs::read_to_string(folder.join(seed)).unwrap();
        let opened = FormToken::open(&text, Purpose::Ride, &owner, &keys);
        assert_eq!(opened.is_ok(), matches!(seed, "genuine" | "of_an_older_version"), "{seed}");
    }
}
