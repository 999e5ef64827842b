//! What the few pages for a person share. Every value is escaped; there is no script.

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d2433;--soft:#667085;--line:#e4e7ec;--paper:#fff;--ground:#f6f7f9;--good:#067647;--bad:#b42318;--act:#4f46e5}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#98a2b3;--line:#2a3142;--paper:#171c28;--ground:#0f131c;--good:#47cd89;\
--bad:#f97066;--act:#8b93ff}}\
*{box-sizing:border-box}body{margin:0;padding:2rem 1rem;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,sans-serif}\
nav,main{max-width:84rem;margin:auto}nav{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;margin-bottom:1.5rem}\
nav a{padding:.5rem 0;text-decoration:none}nav a:first-child{font-weight:600}nav a:hover{text-decoration:underline}\
main.small{max-width:26rem}h1{font-size:1.5rem;margin:0 0 .25rem}p{margin:.25rem 0;color:var(--soft)}\
dl{display:flex;flex-wrap:wrap;gap:1rem;margin:1.5rem 0}dl div{background:var(--paper);border:1px solid var(--line);border-radius:.75rem;\
padding:.75rem 1.25rem}dt{color:var(--soft);font-size:.85rem}dd{margin:0;font-size:1.5rem;font-variant-numeric:tabular-nums}\
a{color:var(--act)}a:focus-visible,summary:focus-visible{outline:3px solid var(--act);outline-offset:2px}\
.card{background:var(--paper);border:1px solid var(--line);border-radius:.75rem;overflow-x:auto}.pad{padding:1.5rem}\
table{border-collapse:collapse;width:100%;font-size:.9rem}th,td{text-align:left;padding:.6rem 1rem;border-bottom:1px solid var(--line);\
white-space:nowrap}tr:last-child td{border:0}th{color:var(--soft);font-weight:500}.n{text-align:right;font-variant-numeric:tabular-nums}\
code{font:.85em ui-monospace,monospace}.good{color:var(--good)}.bad{color:var(--bad)}form{display:inline}\
button{font:inherit;padding:.6rem 1.1rem;border-radius:.5rem;border:1px solid var(--line);background:var(--paper);color:var(--ink);\
margin:1rem .5rem 0 0;cursor:pointer}button.main{background:var(--act);border-color:var(--act);color:#fff}\
.ask{text-align:center}.ask .sum{font-size:1.75rem;font-weight:600;line-height:1.2;margin:1rem 0 .25rem;color:var(--ink);\
font-variant-numeric:tabular-nums}.ask code{overflow-wrap:anywhere}.ask form{display:block}.ask button{width:100%;margin:.75rem 0 0;\
padding:.8rem 1.1rem}.ask form:first-of-type button{margin-top:1.5rem}.ask .note{font-size:.85rem;margin-top:1rem}\
@media(prefers-color-scheme:dark){button.main{color:#10131c}}button:focus-visible{outline:3px solid var(--act);outline-offset:2px}";

/// Text, safe inside of an element and of a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// A whole page around its content.
pub fn page(title: &str, class: &str, content: &str) -> String {
    styled(title, "", class, content)
}

/// The same, with styles of its own. It says that it has no icon: Firefox would look for one, against the
/// page's policy.
pub fn styled(title: &str, style: &str, class: &str, content: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta name=\"description\" content=\"The simulated bank and mailbox of Paid Once: no real money, no real messages.\">\
         <link rel=\"icon\" href=\"data:,\"><title>{}</title><style>{STYLE}{style}</style></head><body><main class=\"{class}\">{content}</main></body></html>",
        escape(title)
    )
}

/// One sentence.
pub fn message(text: &str) -> String {
    page(
        "Payment simulator",
        "small",
        &format!("<div class=\"card pad\"><h1>Payment simulator</h1><p>{}</p></div>", escape(text)),
    )
}
