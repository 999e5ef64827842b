//! HKDF-SHA256: keys from a secret. Source: [RFC 5869](https://www.rfc-editor.org/rfc/rfc5869).

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const HASH_LEN: usize = 32;

/// Makes one key of a secret that may be of any length and form.
pub fn extract(salt: &[u8], secret: &[u8]) -> [u8; HASH_LEN] {
    hmac(salt, &[secret])
}

/// Fills `out`, at most 255 times 32 bytes, with what only the key's holder can make, for one purpose.
pub fn expand(key: &[u8; HASH_LEN], info: &[u8], out: &mut [u8]) {
    let mut block = Vec::new();
    for (chunk, number) in out.chunks_mut(HASH_LEN).zip(1u8..) {
        block = hmac(key, &[&block, info, &[number]]).to_vec();
        chunk.iter_mut().zip(&block).for_each(|(out, byte)| *out = *byte);
    }
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; HASH_LEN] {
    // HMAC takes keys of any length: there is no error to pass on.
    Hmac::<Sha256>::new_from_slice(key).map_or([0; HASH_LEN], |mut mac| {
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(secret: &[u8], salt: &[u8], info: &[u8], prk: &str, okm: &str) {
        let key = extract(salt, secret);
        assert_eq!(base16ct::lower::encode_string(&key), prk);
        let mut out = vec![0; okm.len() / 2];
        expand(&key, info, &mut out);
        assert_eq!(base16ct::lower::encode_string(&out), okm);
    }

    /// Appendix A, test cases 1 to 3.
    #[test]
    fn the_vectors_of_the_rfc_are_met() {
        let range = |from: u8, to: u8| (from..=to).collect::<Vec<u8>>();
        check(
            &[0x0b; 22],
            &range(0x00, 0x0c),
            &range(0xf0, 0xf9),
            "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5",
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
        );
        check(
            &range(0x00, 0x4f),
            &range(0x60, 0xaf),
            &range(0xb0, 0xff),
            "06a6b88c5853361a06104c9ceb35b45cef760014904671014a193f40c15fc244",
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09da3275600c2f09\
             b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87",
        );
        check(
            &[0x0b; 22],
            &[],
            &[],
            "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04",
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
        );
    }
}
