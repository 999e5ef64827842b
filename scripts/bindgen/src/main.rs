//! `paid-once-bindgen WASM OUT_DIR [--without-names]`: writes `index.js` and `index_bg.wasm` for a Worker that cargo has compiled.
//! Without names it is much smaller, and the stack of a trap shows numbers of functions: it is packed then, see [`pack`].
//! `paid-once-bindgen --pack WASM OUT` packs any module that has no names.

mod pack;

use std::env::args_os;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let arguments: Vec<_> = args_os().skip(1).collect();
    let done = match arguments.as_slice() {
        [flag, wasm, out] if flag == "--pack" => pack_file(wasm.as_ref(), out.as_ref()),
        [wasm, out_dir] => bind(wasm.as_ref(), out_dir.as_ref(), false),
        [wasm, out_dir, flag] if flag == "--without-names" => bind(wasm.as_ref(), out_dir.as_ref(), true),
        _ => {
            eprintln!("Usage: paid-once-bindgen WASM OUT_DIR [--without-names] | --pack WASM OUT");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}

fn bind(wasm: &Path, out_dir: &Path, without_names: bool) -> Result<(), Box<dyn Error>> {
    let mut bindgen = Bindgen::new();
    bindgen
        .module(true)?
        .input_path(wasm)
        .out_name("index")
        .typescript(false)
        .remove_name_section(without_names)
        // So that src/entry.mjs can begin anew after a trap.
        .reset_state_function(true)
        .force_enable_abort_handler(true)
        .generate(out_dir)?;
    let bound = out_dir.join("index_bg.wasm");
    if without_names { pack_file(&bound, &bound) } else { Ok(()) }
}

fn pack_file(wasm: &Path, out: &Path) -> Result<(), Box<dyn Error>> {
    Ok(fs::write(out, pack::pack(&fs::read(wasm)?)?)?)
}
