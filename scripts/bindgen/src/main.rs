//! `paid-once-bindgen WASM OUT_DIR [--without-names]`: writes `index.js` and `index_bg.wasm` for a Worker that cargo has compiled.
//! Without names it is a fifth smaller, and the stack of a trap shows numbers of functions.

use std::env::args_os;
use std::process::ExitCode;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let arguments: Vec<_> = args_os().skip(1).collect();
    let (wasm, out_dir, without_names) = match arguments.as_slice() {
        [wasm, out_dir] => (wasm, out_dir, false),
        [wasm, out_dir, flag] if flag == "--without-names" => (wasm, out_dir, true),
        _ => {
            eprintln!("Usage: paid-once-bindgen WASM OUT_DIR [--without-names]");
            return ExitCode::from(2);
        }
    };
    let mut bindgen = Bindgen::new();
    let generated = bindgen.module(true).and_then(|bindgen| {
        bindgen
            .input_path(wasm)
            .out_name("index")
            .typescript(false)
            .remove_name_section(without_names)
            // So that src/entry.mjs can begin anew after a trap.
            .reset_state_function(true)
            .force_enable_abort_handler(true)
            .generate(out_dir)
    });
    match generated {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}
