//! `multipart/form-data` ([RFC 7578](https://www.rfc-editor.org/rfc/rfc7578)), as browsers send a form with a file.

/// One entry of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// The entry's name.
    pub name: String,
    /// What the file is called, if it is one.
    pub file_name: Option<String>,
    /// Its bytes.
    pub body: &'a [u8],
}

/// The entries of a body; `None` if it is no whole form.
pub fn parts<'a>(content_type: &str, body: &'a [u8]) -> Option<Vec<Part<'a>>> {
    let (kind, parameters) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = parameter(parameters, "boundary").filter(|boundary| (1..=70).contains(&boundary.len()))?;
    let first = format!("--{boundary}");
    let next = format!("\r\n--{boundary}");
    let mut rest = body.strip_prefix(first.as_bytes())?;
    let mut parts = Vec::new();
    loop {
        if rest.starts_with(b"--") {
            return Some(parts);
        }
        rest = rest.strip_prefix(b"\r\n")?;
        let head_end = find(rest, b"\r\n\r\n")?;
        let (head, tail) = rest.split_at_checked(head_end)?;
        let tail = tail.get(4..)?;
        let (body, after) = tail.split_at_checked(find(tail, next.as_bytes())?)?;
        rest = after.get(next.len()..)?;
        let head = std::str::from_utf8(head).ok()?;
        let disposition = head.split("\r\n").find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-disposition").then_some(value)
        })?;
        let name = parameter(disposition, "name")?;
        parts.push(Part { name, file_name: parameter(disposition, "filename"), body });
    }
}

/// A parameter of a header, quoted or not. Browsers write a quote in a name as `%22`.
fn parameter(header: &str, name: &str) -> Option<String> {
    header.split(';').find_map(|part| {
        let (known, value) = part.trim().split_once('=')?;
        let is_it = known.trim().eq_ignore_ascii_case(name);
        is_it.then(|| value.trim().trim_matches('"').to_owned())
    })
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=----x";

    fn form(body: &str) -> Option<Vec<Part<'_>>> {
        parts(TYPE, body.as_bytes())
    }

    #[test]
    fn a_form_is_read_as_browsers_send_it() {
        let body = "------x\r\nContent-Disposition: form-data; name=\"form\"\r\n\r\nkey\r\n------x\r\n\
                    Content-Disposition: form-data; name=\"file\"; filename=\"ab.csv\"\r\nContent-Type: text/csv\r\n\r\n\
                    a,b\r\n--c\r\n\r\n------x--\r\n";
        let file_name = Some("ab.csv".to_owned());
        let key = Part { name: "form".to_owned(), file_name: None, body: b"key" };
        let file = Part { name: "file".to_owned(), file_name, body: b"a,b\r\n--c\r\n" };
        assert_eq!(form(body).unwrap(), [key, file]);
        assert_eq!(form("------x--").unwrap(), []);
    }

    #[test]
    fn what_is_no_whole_form_is_none() {
        let whole = "------x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n------x--\r\n";
        assert!(form(whole).is_some(), "the control");
        for end in 0..whole.len() - 4 {
            assert_eq!(form(&whole[..end]), None, "{end}");
        }
        assert_eq!(form(&whole.replace("name=\"a\"", "size=1")), None);
        for kind in
            ["multipart/form-data", "multipart/form-data; boundary=", "text/plain; boundary=----x", ""]
        {
            assert_eq!(parts(kind, whole.as_bytes()), None, "{kind}");
        }
    }
}
