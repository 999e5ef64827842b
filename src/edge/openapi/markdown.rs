//! What the document's descriptions have of Markdown, as HTML: paragraphs, lists, code, bold and links. All else is text.

use askama::filters::{Html, escape};

/// Paragraphs and lists.
pub(super) fn blocks(text: &str) -> String {
    let block = |block: &str| match block.strip_prefix("- ") {
        Some(items) => {
            let items = items.split("\n- ").map(|item| format!("<li>{}</li>", line(item)));
            format!("<ul>{}</ul>", items.collect::<String>())
        }
        None => format!("<p>{}</p>", line(block)),
    };
    text.split("\n\n").map(block).collect()
}

/// A text without paragraphs.
pub(super) fn line(text: &str) -> String {
    let mut html = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*', '[', '<']) {
        let (before, from) = rest.split_at(at);
        html.push_str(&escaped(before));
        let (marked, after) = marked(from).unwrap_or_else(|| {
            let mut characters = from.chars();
            (
                characters.next().map_or(String::new(), |sign| escaped(sign.encode_utf8(&mut [0; 4]))),
                characters.as_str(),
            )
        });
        html.push_str(&marked);
        rest = after;
    }
    html + &escaped(rest)
}

/// What a mark at the beginning encloses, as HTML, and what comes after it.
fn marked(from: &str) -> Option<(String, &str)> {
    if let Some(from) = from.strip_prefix('`') {
        let (code, after) = from.split_once('`')?;
        return Some((format!("<code>{}</code>", escaped(code)), after));
    }
    if let Some(from) = from.strip_prefix("**") {
        let (strong, after) = from.split_once("**")?;
        return Some((format!("<strong>{}</strong>", line(strong)), after));
    }
    if let Some(from) = from.strip_prefix('[') {
        let (label, from) = from.split_once("](")?;
        let (address, after) = from.split_once(')')?;
        return Some((link(address, &line(label)), after));
    }
    let (address, after) = from.strip_prefix('<')?.split_once('>')?;
    address.starts_with("https://").then(|| (link(address, &escaped(address)), after))
}

fn link(address: &str, label: &str) -> String {
    format!("<a href=\"{}\">{label}</a>", escaped(address))
}

fn escaped(text: &str) -> String {
    escape(text, Html).map(|text| text.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_marked_is_marked_up_and_all_else_is_text() {
        assert_eq!(
            line("Send `a<b>` **twice, `so`** to [x](https://x.example/?a&b): 2 * 3 < 7 and `"),
            "Send <code>a&#60;b&#62;</code> <strong>twice, <code>so</code></strong> to \
             <a href=\"https://x.example/?a&#38;b\">x</a>: 2 * 3 &#60; 7 and `"
        );
        assert_eq!(line("<https://x.example>"), "<a href=\"https://x.example\">https://x.example</a>");
        assert_eq!(line("<script>"), "&#60;script&#62;");
        assert_eq!(blocks("One.\n\n- a\n- b"), "<p>One.</p><ul><li>a</li><li>b</li></ul>");
    }
}
