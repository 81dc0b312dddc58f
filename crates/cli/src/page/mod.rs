//! A fleet and a plan as pages: one file each that loads no other files, so that an artifact of a pipeline
//! can be opened in a browser.

mod fleet;
mod plan;
pub mod svg;

pub use fleet::{fleet, title};
pub use plan::{picture, plan};

/// Text of others without any power over a page.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Nothing that XML does not know: a picture with it would not be shown at all.
            c if c.is_control() && !matches!(c, '\n' | '\t') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// The styles of a page, beside those of its pictures.
const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c2430; --paper: #ffffff; --soft: #f3f5f8; --line: #d5dbe3; --dim: #5b6675;
  --red: #b3261e; --yellow: #8a5a00; --green: #1a7f37; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7ebf0; --paper: #14181f; --soft: #1d232c; --line: #38424f;
  --dim: #a0abb8; --red: #ff8a80; --yellow: #f0b849; --green: #5bd47f; } }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.35rem; line-height: 1.35; margin: 0 0 .5rem; }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
p.made, figcaption { color: var(--dim); margin: .25rem 0; }
.tone { border-left: 6px solid var(--line); padding-left: .9rem; }
.tone.red { border-color: var(--red); } .tone.yellow { border-color: var(--yellow); } .tone.green { border-color: var(--green); }
ul { padding-left: 1.2rem; margin: .25rem 0; } li { margin: .2rem 0; }
.kind { display: inline-block; min-width: 5.5rem; font-weight: 600; }
.kind.red { color: var(--red); } .kind.yellow { color: var(--yellow); } .kind.green { color: var(--green); }
figure, .wide { margin: .5rem 0; overflow-x: auto; } figure svg { max-width: 100%; min-width: 46rem; height: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--dim); font-weight: 600; } td.num, th.num { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem; overflow-x: auto;
  font: 13px/1.45 ui-monospace, monospace; margin: .4rem 0; }
pre .plus { color: var(--green); } pre .minus { color: var(--red); } pre .at { color: var(--dim); }
code { font: .92em ui-monospace, monospace; }
details summary { cursor: pointer; color: var(--dim); }
";

/// A whole page. Its policy for content lets nothing be loaded.
fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>{}</title>\n<style>{STYLE}</style>\n</head>\n\
         <body>\n{body}</body>\n</html>\n",
        escape(title)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_has_no_power_over_a_page() {
        assert_eq!(escape("<a href='x'>\"&\u{7}"), "&lt;a href=&#39;x&#39;&gt;&quot;&amp;\u{fffd}");
        let page = page("</title><script>", "");
        assert!(!page.contains("<script>"), "{page}");
    }
}
