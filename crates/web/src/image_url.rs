//! The address of a picture that a shop shows on our pages: of an item, or its logo.

/// The longest address. That of an item's picture stands in the order's link, of which all of it may be no longer than a request line.
pub const IMAGE_URL_MAX: usize = 300;

/// The address of a picture: by https from its shop's own server, or of our own files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageUrl(String);

impl ImageUrl {
    /// A picture of the shop's; the error says what to send. Its origin becomes part of a header, so it can be nothing but one.
    pub fn parse(text: &str) -> Result<Self, String> {
        let host = host(text).unwrap_or_default();
        let is_host = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':');
        let is_good = host.starts_with(|first: char| first.is_ascii_alphanumeric())
            && host.bytes().all(is_host)
            && text.len() <= IMAGE_URL_MAX
            && text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'<' | b'>' | b'\\'));
        if is_good {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("must be an absolute https address of at most {IMAGE_URL_MAX} characters"))
        }
    }

    /// One of our own files, by its path.
    pub fn own(path: &str) -> Self {
        Self(path.to_owned())
    }

    /// As it stands in a link or a setting, or not at all: what is no picture's address is none.
    pub fn known(text: &str) -> Option<Self> {
        if text.starts_with("/assets/") { Some(Self::own(text)) } else { Self::parse(text).ok() }
    }

    /// The address.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What a page with it must be allowed to load from: `https://cdn.shop.example`. `None` of our own.
    pub fn origin(&self) -> Option<&str> {
        self.0.get(..HTTPS.len() + host(&self.0)?.len())
    }
}

const HTTPS: &str = "https://";

/// Host and port of an https address.
fn host(text: &str) -> Option<&str> {
    text.strip_prefix(HTTPS)?.split(['/', '?', '#']).next()
}
