//! One document as HTML. What a document has of raw HTML is shown as text: a page has no markup that is not made here.

use askama::filters::{Html, escape};
use pulldown_cmark::{
    Alignment, CodeBlockKind, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd, html,
};

use crate::headings::Anchors;
use crate::links::{DEMO, Target, picture, target};

/// A document, ready for its page.
#[derive(Debug, Default)]
pub(crate) struct Rendered {
    /// The text of its first heading.
    pub(crate) title: String,
    pub(crate) html: String,
    /// The headings of the second level.
    pub(crate) contents: Vec<Heading>,
}

/// A heading, and how to get there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Heading {
    pub(crate) anchor: String,
    pub(crate) text: String,
}

/// Renders the document `file`.
pub(crate) fn render(file: &str, source: &str) -> Rendered {
    let mut page = Page { file, ..Page::default() };
    for event in Parser::new_ext(source, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH) {
        page.take(event);
    }
    html::push_html(&mut page.done.html, page.events.into_iter());
    page.done
}

/// What is under way while the events of a document come.
#[derive(Default)]
struct Page<'a> {
    file: &'a str,
    done: Rendered,
    events: Vec<Event<'a>>,
    anchors: Anchors,
    /// Since the current heading began: where, and its text.
    heading: Option<(usize, String)>,
    /// How each open link ends.
    links: Vec<&'static str>,
    /// What comes is the text of a link that is an address of the demo.
    is_address_of_demo: bool,
    /// What comes is the text of a picture that is not shown.
    is_words_only: bool,
    /// The language and the text of the current block of code.
    code: Option<(String, String)>,
    table: Table,
    /// What stands between headings is named after the last one.
    section: String,
    /// How many tables and blocks of code there were: a name is one place's.
    regions: usize,
}

/// The current table.
#[derive(Default)]
struct Table {
    alignments: Vec<Alignment>,
    column: usize,
    /// Where the current cell begins.
    cell: usize,
    /// Its head, until it is known whether there is a word in it.
    head: Option<usize>,
}

impl<'a> Page<'a> {
    fn take(&mut self, event: Event<'a>) {
        match event {
            Event::Start(Tag::Heading { .. }) => self.heading = Some((self.events.len(), String::new())),
            Event::End(TagEnd::Heading(level)) => self.end_heading(level),
            Event::Start(Tag::Link { link_type, dest_url, .. }) => {
                self.begin_link(&dest_url);
                self.is_address_of_demo = link_type == LinkType::Autolink && dest_url.starts_with(DEMO);
            }
            Event::End(TagEnd::Link) => {
                self.is_address_of_demo = false;
                let end = self.links.pop().unwrap_or_default();
                self.push(end);
            }
            // Of a picture that the site does not have its words remain.
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                let address = picture(self.file, &dest_url);
                self.is_words_only = address.is_none();
                if let Some(address) = address {
                    let dest_url = address.into();
                    self.events.push(Event::Start(Tag::Image { link_type, dest_url, title, id }));
                }
            }
            Event::End(TagEnd::Image) if self.is_words_only => self.is_words_only = false,
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match kind {
                    CodeBlockKind::Fenced(language) => language.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Event::End(TagEnd::CodeBlock) => self.end_code(),
            Event::Text(text) if self.code.is_some() => {
                if let Some((_, code)) = &mut self.code {
                    code.push_str(&text);
                }
            }
            // The demo may have another port: its address is the page's own.
            Event::Text(text) if self.is_address_of_demo => {
                let path = text.strip_prefix(DEMO).unwrap_or(&text).to_owned();
                self.events.push(Event::Text(path.into()));
            }
            Event::Start(Tag::Table(alignments)) => self.begin_table(alignments),
            Event::End(TagEnd::Table) => self.push("</tbody></table></div>\n"),
            Event::Start(Tag::TableHead) => self.table.head = Some(self.events.len()),
            Event::End(TagEnd::TableHead) => self.end_table_head(),
            Event::Start(Tag::TableRow) => {
                self.table.column = 0;
                self.push("<tr>");
            }
            Event::End(TagEnd::TableRow) => self.push("</tr>\n"),
            Event::Start(Tag::TableCell) => self.begin_cell(),
            Event::End(TagEnd::TableCell) => self.end_cell(),
            Event::Html(markup) | Event::InlineHtml(markup) => self.events.push(Event::Text(markup)),
            other => {
                if let (Some((_, heading)), Event::Text(text) | Event::Code(text)) =
                    (&mut self.heading, &other)
                {
                    heading.push_str(text);
                }
                self.events.push(other);
            }
        }
    }

    fn push(&mut self, markup: impl Into<String>) {
        self.events.push(Event::Html(markup.into().into()));
    }

    fn end_heading(&mut self, level: HeadingLevel) {
        let Some((from, text)) = self.heading.take() else { return };
        let inner = self.events.split_off(from);
        let anchor = self.anchors.next(&text);
        self.push(format!("<{level} id=\"{anchor}\">"));
        // A link in a link is none.
        let is_link = level != HeadingLevel::H1 && !inner.iter().any(|event| matches!(event, Event::Html(_)));
        if is_link {
            self.push(format!("<a class=\"anchor\" href=\"#{anchor}\">"));
        }
        self.events.extend(inner);
        self.push(format!("{}</{level}>\n", if is_link { "</a>" } else { "" }));
        match level {
            HeadingLevel::H1 if self.done.title.is_empty() => self.done.title.clone_from(&text),
            HeadingLevel::H2 => self.done.contents.push(Heading { anchor, text: text.clone() }),
            _ => {}
        }
        self.section = text;
    }

    fn begin_link(&mut self, link: &str) {
        let (begin, end) = match target(self.file, link) {
            Target::Address(address) => (format!("<a href=\"{}\">", escaped(&address)), "</a>"),
            Target::Source(path) => {
                (format!("<span class=\"source\" title=\"{} in the repository\">", escaped(&path)), "</span>")
            }
        };
        self.links.push(end);
        self.push(begin);
    }

    /// A label that is no other place's, for what can be scrolled and is reached by the keyboard.
    fn label(&mut self, what: &str) -> String {
        self.regions += 1;
        escaped(&format!("{what} {}: {}", self.regions, self.section))
    }

    fn end_code(&mut self) {
        let Some((language, code)) = self.code.take() else { return };
        let code = escaped(&code);
        if language == "mermaid" {
            let label = self.label("Diagram");
            self.push(format!(
                "<figure class=\"diagram\"><pre tabindex=\"0\" role=\"group\" aria-label=\"{label}\"><code>{code}</code></pre>\
                 <figcaption>The diagram as text, in the notation of Mermaid. GitHub draws it.</figcaption></figure>\n"
            ));
        } else {
            let label = self.label("Example");
            let copy = if language.is_empty() || language == "text" { "" } else { " data-copy" };
            self.push(format!(
                "<pre tabindex=\"0\" role=\"group\" aria-label=\"{label}\"{copy}><code>{code}</code></pre>\n"
            ));
        }
    }

    fn begin_table(&mut self, alignments: Vec<Alignment>) {
        self.table = Table { alignments, ..Table::default() };
        let label = self.label("Table");
        self.push(format!(
            "<div class=\"table\" tabindex=\"0\" role=\"group\" aria-label=\"{label}\"><table>"
        ));
    }

    /// A head without a word is none.
    fn end_table_head(&mut self) {
        let Some(from) = self.table.head.take() else { return };
        let head = self.events.split_off(from);
        if head.iter().any(|event| matches!(event, Event::Text(_) | Event::Code(_))) {
            self.push("<thead><tr>");
            self.events.extend(head);
            self.push("</tr></thead>");
        }
        self.push("<tbody>\n");
    }

    fn begin_cell(&mut self) {
        // An empty cell of the head names no column: `end_cell` makes it an ordinary one.
        let name = if self.table.head.is_some() { "th scope=\"col\"" } else { "td" };
        let class = match self.table.alignments.get(self.table.column) {
            Some(Alignment::Right) => " class=\"right\"",
            Some(Alignment::Center) => " class=\"center\"",
            _ => "",
        };
        self.table.column += 1;
        self.table.cell = self.events.len();
        self.push(format!("<{name}{class}>"));
    }

    fn end_cell(&mut self) {
        let in_head = self.table.head.is_some();
        let is_empty = self.events.len() == self.table.cell + 1;
        if in_head && is_empty {
            self.events.truncate(self.table.cell);
            self.push("<td></td>");
        } else {
            self.push(if in_head { "</th>" } else { "</td>" });
        }
    }
}

fn escaped(text: &str) -> String {
    let safe = escape(text, Html);
    safe.map_or_else(|never| match never {}, |safe| safe.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(source: &str) -> String {
        render("docs/lab.md", source).html
    }

    #[test]
    fn headings_have_anchors_and_those_of_the_second_level_are_the_contents() {
        let page = render("docs/lab.md", "# The *lab*\n\n## One `key`\n\n### More\n\n## One key\n");
        assert_eq!(page.title, "The lab");
        let contents = [("one-key", "One key"), ("one-key-1", "One key")];
        let wanted =
            contents.map(|(anchor, text)| Heading { anchor: anchor.to_owned(), text: text.to_owned() });
        assert_eq!(page.contents, wanted);
        assert!(page.html.contains(
            "<h2 id=\"one-key\"><a class=\"anchor\" href=\"#one-key\">One <code>key</code></a></h2>"
        ));
    }

    #[test]
    fn links_lead_to_pages_and_files_of_the_source_are_text() {
        let page = html("[key](protocol.md#the-key) and [test](../tests/model/main.rs)");
        assert!(page.contains("<a href=\"/guide/protocol#the-key\">key</a>"), "{page}");
        assert!(
            page.contains(
                "<span class=\"source\" title=\"tests/model/main.rs in the repository\">test</span>"
            )
        );
    }

    #[test]
    fn an_address_of_the_demo_is_shown_without_its_host() {
        assert!(html("<http://localhost:8787/lab>").contains("<a href=\"/lab\">/lab</a>"));
        assert!(
            html("<http://localhost:8000>")
                .contains("<a href=\"http://localhost:8000\">http://localhost:8000</a>")
        );
    }

    #[test]
    fn raw_html_is_text() {
        let page = html("<script>alert(1)</script>\n\na <b onclick=\"x\">bold</b>");
        assert!(page.contains("&lt;script&gt;") && page.contains("&lt;b onclick"), "{page}");
        assert!(!page.contains("<script>") && !page.contains("<b "));
    }

    #[test]
    fn a_table_scrolls_in_itself_and_has_a_head_only_with_words_in_it() {
        let named = html("## Sums\n\n| | n |\n|---|--:|\n| a | 1 |\n");
        assert!(
            named.contains("<thead><tr><td></td><th scope=\"col\" class=\"right\">n</th></tr></thead>"),
            "{named}"
        );
        assert!(named.contains("role=\"group\" aria-label=\"Table 1: Sums\""));
        assert!(named.contains("<tr><td>a</td><td class=\"right\">1</td></tr>"));
        assert!(!html("| | |\n|---|---|\n| a | b |\n").contains("thead"));
    }

    #[test]
    fn code_can_be_copied_and_a_diagram_is_shown_as_text() {
        let code = html("```sh\ncurl '<a>'\n```\n");
        assert!(code.contains(" data-copy><code>curl &#39;&#60;a&#62;&#39;\n</code>"), "{code}");
        let diagram = html("```mermaid\nstateDiagram-v2\n```\n");
        assert!(diagram.contains("<figcaption>") && !diagram.contains("data-copy"));
    }
}
