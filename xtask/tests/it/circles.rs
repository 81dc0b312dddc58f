//! No circles between the modules of a crate: if one module uses another, directly or through others, the other does
//! not use it. Then each file can be read, tested and moved with only those that it uses. The rule is in
//! `docs/architecture.md`.
//!
//! A module is a file here. What a file uses is read from its text: the trees of `use`, and all paths that begin with
//! `crate`, `self` or `super`. A path counts for the file that has the item, also where another module re-exports it.
//! The limits of this reader:
//!
//! - A module and the modules inside it belong together: what they use of each other does not count.
//! - Tests do not count: neither `#[cfg(test)]` nor the folder `tests` of a crate.
//! - Methods of a value whose type the file does not name, macros that are found by textual scope, and paths that a
//!   macro puts together are not seen.
//! - A re-export with `*` counts for the module that has it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::purity::{OURS, root};

/// A circle that stays: the folder of its crate, all its modules, and why it stays.
type Exception = (&'static str, &'static [&'static str], &'static str);

/// The circles that stay.
const EXCEPTIONS: &[Exception] = &[];

/// Where a module is in its crate, from the root: `["check", "bounds"]`.
type Name = Vec<String>;

/// A word or a sign of a source, and its line.
struct Token {
    text: String,
    line: usize,
}

/// The words, texts and signs of a source, without comments, other literals and lifetimes.
fn tokens(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let (mut all, mut line, mut i) = (Vec::new(), 1, 0);
    while i < chars.len() {
        let (from, first) = (i, line);
        let word = |end: usize, all: &mut Vec<Token>| {
            all.push(Token { text: chars[from..end].iter().collect(), line: first });
            end
        };
        i = match (at(i), at(i + 1)) {
            ('/', '/') => (i..).find(|i| matches!(at(*i), '\n' | '\0')).unwrap(),
            ('/', '*') => {
                let (mut depth, mut end) = (1, i + 2);
                while depth > 0 && end < chars.len() {
                    let step = match (at(end), at(end + 1)) {
                        ('/', '*') => 1,
                        ('*', '/') => -1,
                        _ => 0,
                    };
                    depth += step;
                    end += if step == 0 { 1 } else { 2 };
                }
                end
            }
            ('"', _) => word(after_text(&chars, i), &mut all),
            ('\'', '\\') => (i + 3..).find(|i| matches!(at(*i), '\'' | '\0')).unwrap() + 1,
            ('\'', _) if at(i + 2) == '\'' => i + 3,
            ('\'', _) => i + 1 + chars[i + 1..].iter().take_while(|c| is_of_word(**c)).count(),
            (':', ':') => word(i + 2, &mut all),
            (c, _) if is_of_word(c) => {
                let end = i + chars[i..].iter().take_while(|c| is_of_word(**c)).count();
                let is_raw = matches!(chars[i..end], ['r'] | ['b' | 'c', 'r']);
                let fence = chars[end..].iter().take_while(|c| **c == '#').count();
                if is_raw && at(end + fence) == '"' {
                    let close: Vec<char> = std::iter::once('"').chain(vec!['#'; fence]).collect();
                    let inside = end + fence + 1;
                    let length = chars[inside..].windows(close.len()).position(|some| some == close);
                    length.map_or(chars.len(), |length| inside + length + close.len())
                } else {
                    word(end, &mut all)
                }
            }
            (c, _) if c.is_whitespace() => i + 1,
            _ => word(i + 1, &mut all),
        };
        line += chars[from..i.min(chars.len())].iter().filter(|c| **c == '\n').count();
    }
    all
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where a text ends that begins here.
fn after_text(chars: &[char], from: usize) -> usize {
    let mut i = from + 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    chars.len().min(i + 1)
}

/// Without what is compiled for tests only.
fn without_tests(tokens: Vec<Token>) -> Vec<Token> {
    const FOR_TESTS: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        let next = tokens[i..].iter().map(|token| token.text.as_str());
        if !next.take(FOR_TESTS.len()).eq(FOR_TESTS) {
            kept.push(Token { text: tokens[i].text.clone(), line: tokens[i].line });
            i += 1;
            continue;
        }
        i += FOR_TESTS.len();
        // The item ends with its `;` or its block, or where that ends in which it is.
        let mut depth = 0;
        while i < tokens.len() {
            let text = tokens[i].text.as_str();
            depth += match text {
                "(" | "[" | "{" => 1,
                ")" | "]" | "}" => -1,
                _ => 0,
            };
            if depth < 0 {
                break;
            }
            i += 1;
            if depth == 0 && matches!(text, ";" | "}") {
                break;
            }
        }
    }
    kept
}

/// Where brackets end that begin at this token.
fn after_brackets(tokens: &[Token], from: usize) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(from) {
        depth += match token.text.as_str() {
            "[" => 1,
            "]" => -1,
            _ => 0,
        };
        if depth == 0 {
            return i;
        }
    }
    tokens.len()
}

/// A path that a source names, relative to the file: `super` counts modules, not blocks.
struct Named {
    path: Vec<String>,
    /// The name that it has in this file, if it is imported.
    name: Option<String>,
    line: usize,
}

/// What the text of a module says.
#[derive(Default)]
struct Source {
    /// The modules inside it that have files of their own.
    inside: Vec<String>,
    named: Vec<Named>,
}

impl Source {
    fn read(text: &str) -> Self {
        let tokens = without_tests(tokens(text));
        let at = |i: usize| tokens.get(i).map_or("", |token| token.text.as_str());
        let mut source = Self::default();
        // The blocks that are open, and which of them are modules.
        let (mut depth, mut blocks) = (0, Vec::new());
        // Where the attribute ends that begins with this token, or began before it.
        let (mut i, mut attribute) = (0, 0);
        while i < tokens.len() {
            let line = tokens[i].line;
            match at(i) {
                "#" if at(i + 1) == "[" => attribute = after_brackets(&tokens, i + 1),
                // Attributes name functions and types in texts: `#[serde(into = "crate::saved::Saved")]`.
                text if text.starts_with('"') && i < attribute => {
                    let path: Vec<_> = text.trim_matches('"').split("::").map(str::to_owned).collect();
                    if path.len() > 1 && matches!(path[0].as_str(), "crate" | "self" | "super") {
                        source.name(path, None, line, blocks.len());
                    }
                }
                "{" => depth += 1,
                "}" => {
                    if blocks.last() == Some(&depth) {
                        blocks.pop();
                    }
                    depth -= 1;
                }
                "mod" if at(i + 2) == ";" => source.inside.push(at(i + 1).to_owned()),
                "mod" if at(i + 2) == "{" => {
                    blocks.push(depth + 1);
                }
                "use" if at(i + 1) != "<" => {
                    i = source.tree(&tokens, i + 1, Vec::new(), blocks.len());
                    continue;
                }
                "crate" | "self" | "super" if at(i + 1) == "::" && (i == 0 || at(i - 1) != "::") => {
                    let mut path = vec![at(i).to_owned()];
                    while at(i + 1) == "::" && at(i + 2).starts_with(is_of_word) {
                        i += 2;
                        path.push(at(i).to_owned());
                    }
                    source.name(path, None, line, blocks.len());
                }
                _ => {}
            }
            i += 1;
        }
        source
    }

    /// One branch of the tree of a `use`; returns where it ends.
    fn tree(&mut self, tokens: &[Token], mut i: usize, mut path: Vec<String>, blocks: usize) -> usize {
        let at = |i: usize| tokens.get(i).map_or("", |token| token.text.as_str());
        let line = tokens.get(i).map_or(0, |token| token.line);
        loop {
            match at(i) {
                "::" => i += 1,
                "{" => {
                    while !matches!(at(i), "}" | "") {
                        i = self.tree(tokens, i + 1, path.clone(), blocks);
                    }
                    return i + 1;
                }
                word if word.starts_with(is_of_word) && word != "as" => {
                    path.push(word.to_owned());
                    i += 1;
                }
                "*" => i += 1,
                end => {
                    let alias = (end == "as").then(|| at(i + 1).to_owned());
                    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
                        path.pop();
                    }
                    if let Some(last) = path.last() {
                        let name = alias.clone().unwrap_or_else(|| last.clone());
                        self.name(path, Some(name), line, blocks);
                    }
                    return if alias.is_some() { i + 2 } else { i };
                }
            }
        }
    }

    fn name(&mut self, path: Vec<String>, name: Option<String>, line: usize, blocks: usize) {
        let up = path.iter().take_while(|part| *part == "super").count();
        // A module that is a block of the file is left first; what is above it is still this file.
        let path = match up.checked_sub(blocks) {
            Some(0) | None if up > 0 => [&["self".to_owned()], &path[up..]].concat(),
            Some(above) => path[up - above..].to_vec(),
            None => path,
        };
        self.named.push(Named { path, name, line });
    }
}

struct Module {
    file: PathBuf,
    source: Source,
}

/// The modules of a crate.
struct Modules(BTreeMap<Name, Module>);

/// Modules that use each other, directly or through others of them.
struct Circle {
    modules: Vec<String>,
    /// Who uses what of whom, a line each.
    edges: String,
}

/// What one module uses of another: the line, and the path that it names.
type Edges = BTreeMap<(Name, Name), (usize, String)>;

/// Everything that a module uses, directly or through others.
fn reached_from<'a>(module: &'a Name, edges: &'a Edges) -> BTreeSet<&'a Name> {
    let mut reached = BTreeSet::new();
    let mut open = vec![module];
    while let Some(name) = open.pop() {
        let next = edges.keys().filter(|(user, _)| user == name).map(|(_, used)| used);
        open.extend(next.filter(|used| reached.insert(*used)));
    }
    reached
}

impl Modules {
    /// The modules of the crate whose root this file is. `text` reads a file, if it is there.
    fn read(root: &Path, text: &dyn Fn(&Path) -> Option<String>) -> Self {
        let mut modules = BTreeMap::new();
        let folder = root.parent().unwrap().to_owned();
        let mut open = vec![(Name::new(), root.to_owned(), folder)];
        while let Some((name, file, folder)) = open.pop() {
            let source = Source::read(&text(&file).unwrap());
            for inside in &source.inside {
                let beside = folder.join(format!("{inside}.rs"));
                let below = folder.join(inside);
                let file = if text(&beside).is_some() { beside } else { below.join("mod.rs") };
                if text(&file).is_some() {
                    open.push(([name.as_slice(), std::slice::from_ref(inside)].concat(), file, below));
                }
            }
            modules.insert(name, Module { file, source });
        }
        Self(modules)
    }

    /// The module that has what `path` names in the module `from`; none of this crate if it is another's.
    fn find(&self, from: &[String], path: &[String], hops: usize) -> Option<Name> {
        let (first, mut rest) = path.split_first()?;
        let mut at: Name = match first.as_str() {
            "crate" => Name::new(),
            "self" => from.to_vec(),
            "super" => {
                let mut up = from.len().checked_sub(1)?;
                while rest.first().is_some_and(|next| next == "super") {
                    rest = &rest[1..];
                    up = up.checked_sub(1)?;
                }
                from[..up].to_vec()
            }
            _ => {
                let knows = self.inside(from, first).is_some() || self.imported(from, first).is_some();
                return if knows { self.find_in(from.to_vec(), path, hops) } else { None };
            }
        };
        while let Some(inside) = rest.first().and_then(|next| self.inside(&at, next)) {
            (at, rest) = (inside, &rest[1..]);
        }
        self.find_in(at, rest, hops)
    }

    /// The module that has what `path` names inside the module `at`, past its re-exports.
    fn find_in(&self, at: Name, path: &[String], hops: usize) -> Option<Name> {
        let Some((first, rest)) = path.split_first() else { return Some(at) };
        if let Some(inside) = self.inside(&at, first) {
            return self.find_in(inside, rest, hops);
        }
        match self.imported(&at, first) {
            Some(import) if hops > 0 => {
                // An import of another crate's ends the search: the module that has it re-exports it.
                let path = [import, rest].concat();
                self.find(&at, &path, hops - 1).or(Some(at))
            }
            _ => Some(at),
        }
    }

    fn inside(&self, at: &[String], name: &str) -> Option<Name> {
        let inside = [at, &[name.to_owned()]].concat();
        self.0.contains_key(&inside).then_some(inside)
    }

    fn imported(&self, at: &[String], name: &str) -> Option<&[String]> {
        let named = &self.0.get(at)?.source.named;
        let import = named.iter().find(|named| named.name.as_deref() == Some(name))?;
        // `use serde;` names itself.
        (import.path != [name]).then_some(import.path.as_slice())
    }

    fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (name, module) in &self.0 {
            for Named { path, line, .. } in &module.source.named {
                let Some(used) = self.find(name, path, 8) else { continue };
                if !name.starts_with(&used) && !used.starts_with(name) {
                    edges.entry((name.clone(), used)).or_insert_with(|| (*line, path.join("::")));
                }
            }
        }
        edges
    }

    /// The groups of modules that use each other, directly or through others of the group.
    fn circles(&self) -> Vec<Circle> {
        let edges = self.edges();
        let reached: BTreeMap<_, _> = self.0.keys().map(|name| (name, reached_from(name, &edges))).collect();
        let mut groups: BTreeSet<BTreeSet<&Name>> = BTreeSet::new();
        for (name, there) in &reached {
            let group: BTreeSet<&Name> =
                there.iter().filter(|other| reached[*other].contains(name)).copied().collect();
            if !group.is_empty() {
                groups.insert(group);
            }
        }
        let circle = |group: BTreeSet<&Name>| {
            let mut lines = String::new();
            for ((user, used), (line, path)) in &edges {
                if group.contains(user) && group.contains(used) {
                    let (user, used) = (self.0[user].file.display(), self.0[used].file.display());
                    writeln!(lines, "  {user}:{line} uses {path} of {used}").unwrap();
                }
            }
            Circle { modules: group.into_iter().map(|name| name.join("::")).collect(), edges: lines }
        };
        groups.into_iter().map(circle).collect()
    }
}

/// The circles of the crates in a folder: its library, and its programs.
fn circles_in(folder: &Path) -> Vec<Circle> {
    let text = |file: &Path| std::fs::read_to_string(folder.join(file)).ok();
    let mut roots = vec![PathBuf::from("src/lib.rs"), PathBuf::from("src/main.rs")];
    let programs = std::fs::read_dir(folder.join("src/bin")).into_iter().flatten();
    roots.extend(programs.map(|entry| Path::new("src/bin").join(entry.unwrap().file_name())));
    roots.retain(|root| text(root).is_some());
    assert!(!roots.is_empty(), "no sources in {}", folder.display());
    roots.iter().flat_map(|root| Modules::read(root, &text).circles()).collect()
}

#[test]
fn no_module_uses_what_uses_it() {
    let mut wrong = String::new();
    let mut unmet: Vec<&Exception> = EXCEPTIONS.iter().collect();
    for folder in OURS.iter().map(|ours| ours.folder) {
        for Circle { modules, edges } in circles_in(&root().join(folder)) {
            let before = unmet.len();
            unmet.retain(|(of, circle, _)| *of != folder || *circle != modules);
            if unmet.len() == before {
                writeln!(wrong, "{folder}: a circle of {}:\n{edges}", modules.join(", ")).unwrap();
            }
        }
    }
    for (folder, modules, why) in unmet {
        let modules = modules.join(", ");
        writeln!(
            wrong,
            "{folder}: the circle of {modules} (\"{why}\") is no more: take its exception away\n"
        )
        .unwrap();
    }
    assert!(
        wrong.is_empty(),
        "{wrong}Move what closes the circle to the module that it belongs to by its meaning, or to one of its own that \
         both use. If a circle has to stay, name it in EXCEPTIONS with the reason."
    );
}

/// The circles of a crate that is given as text.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let text = |file: &Path| {
        files.iter().find(|(name, _)| Path::new(name) == file).map(|(_, text)| (*text).to_owned())
    };
    let modules = Modules::read(Path::new("lib.rs"), &text);
    modules.circles().into_iter().map(|circle| circle.edges).collect()
}

#[test]
fn a_circle_is_found_by_what_its_files_name_with_lines() {
    let found = circles_of(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;"),
        ("a.rs", "use crate::{b::{self, Thing}, c};"),
        ("b.rs", "/// Words.\nfn f() { crate::c::g(\"crate::d\"); }"),
        ("c.rs", "mod part;"),
        ("c/part.rs", "use super::h;\nuse super::super::a::Other as A;"),
        ("d.rs", "use super::a;"),
    ]);
    // c/part.rs has the way back, and c belongs to it; but they are two files, of which each is free of circles.
    assert_eq!(found, Vec::<String>::new());
    let found = circles_of(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;"),
        ("a.rs", "use crate::{b::{self, Thing}, d};"),
        ("b.rs", "/// Words.\nfn f<'a>() -> &'a str { crate::c::g('\"', r#\"crate::d\"#) }"),
        ("c.rs", "use super::a::Other as A;"),
        ("d.rs", ""),
    ]);
    let edges = "  a.rs:1 uses crate::b of b.rs\n  b.rs:2 uses crate::c::g of c.rs\n  c.rs:1 uses super::a::Other of a.rs\n";
    assert_eq!(found, [edges]);
}

#[test]
fn a_re_export_counts_for_the_file_that_has_the_item() {
    let lib = "mod a;\nmod b;\npub use a::{Inner as Item};";
    let found = circles_of(&[("lib.rs", lib), ("a.rs", "use crate::b;"), ("b.rs", "\nuse crate::Item;")]);
    assert_eq!(found, ["  a.rs:1 uses crate::b of b.rs\n  b.rs:2 uses crate::Item of a.rs\n"]);
    // What the root has itself is the root's.
    let lib = "mod a;\nmod b;\npub struct Item;";
    let found = circles_of(&[("lib.rs", lib), ("a.rs", "use crate::b;"), ("b.rs", "use crate::Item;")]);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_path_in_a_text_of_an_attribute_counts() {
    let lib = "mod a;\nmod b;";
    let b = "#[derive(Serialize)]\n#[serde(into = \"crate::a::Saved\")]\nstruct Thing;";
    let found = circles_of(&[("lib.rs", lib), ("a.rs", "use crate::b::Thing;"), ("b.rs", b)]);
    assert_eq!(found, ["  a.rs:1 uses crate::b::Thing of b.rs\n  b.rs:2 uses crate::a::Saved of a.rs\n"]);
}

#[test]
fn tests_comments_and_texts_may_name_what_they_like() {
    let found = circles_of(&[
        ("lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod stage;"),
        ("a.rs", "use crate::b;"),
        (
            "b.rs",
            "//! Like crate::a.\n/* crate::a /* */ crate::a */\nconst A: &str = \"crate::a\";\n#[cfg(test)]\nuse crate::a;\n\
             #[cfg(test)]\nmod tests { use crate::a; fn f() { crate::a::g(); } }\nmod block { use super::super::b; }",
        ),
        ("stage.rs", "use crate::a;"),
    ]);
    assert_eq!(found, Vec::<String>::new());
}
