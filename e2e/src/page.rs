//! Pages whose commands are run: each block marked `console` holds commands (`$ …`) and what they print. In
//! the expected text `…` stands for anything in its line, and a line `...` for any number of lines; how
//! columns are spaced does not matter, since names and ages differ.

use std::fmt::Write as _;

/// One command of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// In which line of the page it stands.
    pub line: usize,
    /// The command, in words.
    pub words: Vec<String>,
    /// What it should print.
    pub expected: Vec<String>,
}

/// The commands of a page, in its order.
///
/// # Errors
/// When a block is not closed, does not begin with a command, or a command has an open quote.
pub fn steps(page: &str) -> anyhow::Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        match line {
            "```console" => inside = true,
            "```" => inside = false,
            _ if !inside => {}
            _ => match line.strip_prefix("$ ") {
                Some(begin) => {
                    let mut command = begin.to_owned();
                    while let Some(before) = command.strip_suffix('\\') {
                        let next = lines.next().map(|(_, next)| next.trim_start());
                        let next = next.ok_or_else(|| anyhow::anyhow!("line {}: it goes on", number + 1))?;
                        command = format!("{before}{next}");
                    }
                    let words = words(&command)
                        .ok_or_else(|| anyhow::anyhow!("line {}: a quote stays open", number + 1))?;
                    steps.push(Step { line: number + 1, words, expected: Vec::new() });
                }
                None => {
                    let step = steps.last_mut();
                    let step =
                        step.ok_or_else(|| anyhow::anyhow!("line {}: output of no command", number + 1))?;
                    step.expected.push(line.to_owned());
                }
            },
        }
    }
    anyhow::ensure!(!inside, "the last block is not closed");
    Ok(steps)
}

/// The words of a command, as a shell splits them; nothing where a quote stays open. Variables, pipes and the
/// like are not known: a page for people has none.
fn words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in command.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

impl Step {
    /// Why what it printed is not what the page says; nothing where it is.
    #[must_use]
    pub fn differs(&self, said: &str) -> Option<String> {
        let said: Vec<&str> = said.lines().map(str::trim_end).collect();
        let said = match said.iter().rposition(|line| !line.is_empty()) {
            Some(last) => &said[..=last],
            None => &[],
        };
        let expected: Vec<&str> = self.expected.iter().map(String::as_str).collect();
        if lines_are(&expected, said) {
            return None;
        }
        let mut text = format!("line {}: `{}` printed\n", self.line, self.words.join(" "));
        for line in said {
            let _ = writeln!(text, "    {line}");
        }
        let _ = writeln!(text, "  and the page says");
        for line in expected {
            let _ = writeln!(text, "    {line}");
        }
        Some(text)
    }
}

fn lines_are(expected: &[&str], said: &[&str]) -> bool {
    match expected.split_first() {
        None => said.is_empty(),
        Some((&"...", rest)) => (0..=said.len()).any(|skip| lines_are(rest, &said[skip..])),
        Some((line, rest)) => {
            said.split_first().is_some_and(|(first, others)| line_is(line, first) && lines_are(rest, others))
        }
    }
}

fn line_is(expected: &str, said: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = plain(said);
    let parts: Vec<String> = expected.split('…').map(plain).collect();
    let [first, middle @ .., last] = parts.as_slice() else { return parts.concat() == said };
    let Some(mut rest) = said.strip_prefix(first.as_str()) else { return false };
    for part in middle {
        let Some(at) = rest.find(part.as_str()) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A\n```console\n$ kubectl patch gpp fleet \\\n    -p '{\"a\": \"b c\"}'\nfleet …\n...\nend\n```\n```text\n$ not this\n```\n";

    #[test]
    fn commands_are_read_with_their_quotes_and_what_they_print() {
        let steps = steps(PAGE).unwrap();
        assert_eq!(steps.len(), 1);
        assert_eq!(steps[0].words, ["kubectl", "patch", "gpp", "fleet", "-p", "{\"a\": \"b c\"}"]);
        assert_eq!((steps[0].line, steps[0].expected.join("|").as_str()), (3, "fleet …|...|end"));
    }

    #[test]
    fn what_differs_is_shown_and_what_the_page_leaves_open_is_not() {
        let step = &steps(PAGE).unwrap()[0];
        for good in ["fleet patched\nend\n", "fleet   a\nb\nc\nend"] {
            assert_eq!(step.differs(good), None, "{good}");
        }
        for bad in ["", "flet a\nend", "fleet a\nend\nmore", "fleet a"] {
            assert!(step.differs(bad).is_some(), "{bad}");
        }
        assert!(line_is("NAME …  AGE", "NAME   READY   AGE") && !line_is("NAME … AGE", "NAME READY AG"));
    }

    #[test]
    fn a_page_that_cannot_be_read_is_refused_with_the_line() {
        for (bad, says) in [
            ("```console\n$ a 'b\n```", "line 2: a quote stays open"),
            ("```console\nb\n```", "line 2: output of no command"),
            ("```console\n$ a", "the last block is not closed"),
        ] {
            assert_eq!(steps(bad).unwrap_err().to_string(), says);
        }
    }
}
