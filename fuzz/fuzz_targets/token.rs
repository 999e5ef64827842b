#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| paid_once_fuzz::token(data));
