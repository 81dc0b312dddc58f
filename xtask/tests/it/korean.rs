//! The Korean pages agree with the English ones, as far as a program can check: the same headings, blocks,
//! tables, code, figures, links, and messages of the program.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Each English page, and the Korean one.
const PAGES: [(&str, &str); 4] = [
    ("README.md", "docs/ko/README.md"),
    ("docs/tutorial.md", "docs/ko/tutorial.md"),
    ("docs/guides/install.md", "docs/ko/install.md"),
    ("docs/guides/waiting.md", "docs/ko/waiting.md"),
];

/// What stands under one heading.
#[derive(Default)]
struct Section {
    /// How many `#` the heading has.
    level: usize,
    /// The line of the heading.
    line: usize,
    /// The blocks, with the comment that says which file one quotes.
    blocks: String,
    /// Everything else, without its links' targets.
    prose: String,
    /// How many rows its tables have, and its lists.
    rows: usize,
    items: usize,
    /// The files that it links to.
    links: Vec<String>,
}

fn sections(page: &str, text: &str) -> Vec<Section> {
    let mut found: Vec<Section> = Vec::new();
    let mut fenced = false;
    for (number, line) in text.lines().enumerate() {
        let fence = line.starts_with("```");
        if line.starts_with('#') && !fenced {
            let level = line.chars().take_while(|c| *c == '#').count();
            found.push(Section { level, line: number + 1, ..Section::default() });
        }
        let section = found.last_mut().expect("a page begins with its heading");
        if fenced || fence || line.starts_with("<!--") {
            section.blocks.push_str(line);
            section.blocks.push('\n');
        } else {
            section.rows += usize::from(line.starts_with('|'));
            section.items += usize::from(line.starts_with("- "));
            let mut rest = line;
            while let Some((before, after)) = rest.split_once("](") {
                let (target, after) = after.split_once(')').expect("a link ends in its line");
                section.prose.push_str(before);
                section.links.extend(linked(page, target));
                rest = after;
            }
            section.prose.push_str(rest);
            section.prose.push('\n');
        }
        fenced ^= fence;
    }
    found.iter_mut().for_each(|section| section.links.sort());
    found
}

/// The file that a link means, by its English name; nothing where it leads
/// from a page to the same in the other language, or within it.
fn linked(page: &str, target: &str) -> Option<String> {
    let (target, _) = target.split_once('#').unwrap_or((target, ""));
    if target.contains("://") || target.is_empty() {
        return (!target.is_empty()).then(|| target.to_owned());
    }
    let mut path = Path::new(page).parent().unwrap().to_owned();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
    }
    let path = path.display().to_string();
    let in_english = |path: &str| {
        let pair = PAGES.iter().find(|(_, korean)| *korean == path);
        pair.map_or(path, |(english, _)| english).to_owned()
    };
    let path = in_english(&path);
    (path != in_english(page)).then_some(path)
}

/// What is written as code in a section, each with how often.
fn code(prose: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for word in prose.split('`').skip(1).step_by(2) {
        *found.entry(word.split_whitespace().collect::<Vec<_>>().join(" ")).or_default() += 1;
    }
    found
}

/// The figures of a text, each with how often.
fn figures(text: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != ':') {
        let word = word.trim_matches(|c| c == '.' || c == ':');
        let starts = word.starts_with(|c: char| c.is_ascii_digit());
        let figure: String = word.chars().take_while(|c| !c.is_ascii_alphabetic()).collect();
        if starts {
            *found.entry(figure).or_default() += 1;
        }
    }
    found
}

/// Korean writes as a figure what English writes as a word.
const WORDS: [(&str, &str); 6] =
    [("a minute", "1"), ("two", "2"), ("three", "3"), ("four", "4"), ("five", "5"), ("six", "6")];

/// What the second lacks of the first.
fn lacks(all: &BTreeMap<String, usize>, of: &BTreeMap<String, usize>) -> Vec<String> {
    all.iter()
        .filter(|(what, many)| of.get(*what).is_none_or(|has| has < many))
        .map(|(w, _)| w.clone())
        .collect()
}

/// The sentences of the program that the tables of a page quote in their first column.
fn sentences(prose: &str, quote: &str) -> Vec<String> {
    let rows = prose.lines().filter_map(|line| line.strip_prefix("| ")?.strip_prefix(quote));
    let cells = rows.filter_map(|row| row.split_once(&format!("{quote} |")));
    cells.map(|(sentence, _)| sentence.to_owned()).collect()
}

/// Where two pages say something else.
fn differences(english: (&str, &str), korean: (&str, &str)) -> Vec<String> {
    let (ours, theirs) = (sections(english.0, english.1), sections(korean.0, korean.1));
    let levels = |of: &[Section]| of.iter().map(|section| section.level).collect::<Vec<_>>();
    if levels(&ours) != levels(&theirs) {
        return vec![format!("{}: its headings are not those of {}", korean.0, english.0)];
    }
    let mut wrong = Vec::new();
    for (en, ko) in ours.iter().zip(&theirs) {
        let mut differs = |what: String| wrong.push(format!("{}:{}: {what}", korean.0, ko.line));
        if en.blocks != ko.blocks {
            differs("its blocks are others".to_owned());
        }
        if (en.rows, en.items) != (ko.rows, ko.items) {
            differs("its tables or lists are longer or shorter".to_owned());
        }
        if en.links != ko.links {
            differs(format!("its links are {:?}, and should be {:?}", ko.links, en.links));
        }
        let said = (sentences(&en.prose, "\""), sentences(&ko.prose, "`"));
        if said.0.iter().any(|sentence| !said.1.contains(sentence)) || !in_order(&said.0, &said.1) {
            differs("the sentences of the program are others, or in another order".to_owned());
        }
        for missing in lacks(&code(&en.prose), &code(&ko.prose)) {
            differs(format!("it lacks `{missing}`"));
        }
        let (has, needs) = (figures(&ko.prose), figures(&en.prose));
        for missing in lacks(&needs, &has) {
            differs(format!("it lacks the figure {missing}"));
        }
        let prose = en.prose.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        for figure in lacks(&has, &needs) {
            if !WORDS.iter().any(|(word, meant)| *meant == figure && prose.contains(word)) {
                differs(format!("the figure {figure} is not in English"));
            }
        }
    }
    wrong
}

/// Whether the words of the second that the first has come in its order.
fn in_order(all: &[String], among: &[String]) -> bool {
    among.iter().filter(|sentence| all.contains(sentence)).eq(all)
}

#[test]
fn the_korean_pages_say_what_the_english_ones_say() {
    let read = |page: &str| std::fs::read_to_string(root().join(page)).unwrap();
    let mut wrong = Vec::new();
    for (english, korean) in PAGES {
        wrong.extend(differences((english, &read(english)), (korean, &read(korean))));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_korean_page_has_an_english_one() {
    for entry in std::fs::read_dir(root().join("docs/ko")).unwrap() {
        let page = format!("docs/ko/{}", entry.unwrap().file_name().to_string_lossy());
        assert!(PAGES.iter().any(|(_, korean)| *korean == page), "{page} is compared with nothing");
    }
}

#[test]
fn whatever_differs_is_named() {
    let english = "# A\nWait two minutes, `kubectl get x` 3.18, [b](docs/b.md).\n```text\nrun\n```\n\n| \"no … is free\" | so |\n";
    let korean =
        "# 가\n2분, `kubectl get x` 3.18, [나](../b.md).\n```text\nrun\n```\n\n| `no … is free` | 예 |\n";
    let compare = |korean: &str| differences(("README.md", english), ("docs/ko/README.md", korean));
    assert_eq!(compare(korean), Vec::<String>::new());
    for (from, to, says) in [
        ("# 가", "## 가", "headings"),
        ("2분", "7분", "the figure 7 is not in English"),
        ("3.18", "3.19", "it lacks the figure 3.18"),
        ("get x", "get y", "it lacks `kubectl get x`"),
        ("\nrun", "\nrin", "blocks"),
        ("../b.md", "../c.md", "links"),
        ("no … is", "no … was", "sentences"),
        ("| `no … is free` | 예 |\n", "", "tables"),
    ] {
        assert!(korean.contains(from));
        let found = compare(&korean.replace(from, to));
        assert!(found.iter().any(|wrong| wrong.contains(says)), "{from}: {found:?}");
    }
}
