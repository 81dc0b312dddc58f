//! The licences of an image's contents, as one text: the packages, their licences, and the text of each
//! licence once.

use std::collections::BTreeMap;

use crate::packages::{Kind, Package};
use crate::sbom::expression;

/// A package with the texts that it brings.
#[derive(Clone, Debug)]
pub struct Credited<'a> {
    /// The package.
    pub package: &'a Package,
    /// File name and text of each licence or notice in it.
    pub texts: Vec<(String, String)>,
}

/// A linked package whose licence cannot be told.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{name} {version} brings no text of its licence ({licence}), and that is none whose words are known here: \
     add them to packaging/image/src/notices.rs"
)]
pub struct Untold {
    name: String,
    version: String,
    licence: String,
}

/// The MIT licence's words, for crates that name it and bring no file.
const MIT: &str = "\
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the \"Software\"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.";

/// What stands for the text that a crate does not bring.
fn known_words(licence: &str) -> Option<(String, String)> {
    let choices: Vec<_> = licence.split(" OR ").map(|choice| choice.trim_matches(['(', ')'])).collect();
    if choices.contains(&"Apache-2.0") {
        let where_ = "The Apache License, Version 2.0, whose words are those of /licenses/LICENSE.";
        return Some(("named, without a file".to_owned(), where_.to_owned()));
    }
    choices.contains(&"MIT").then(|| ("named, without a file".to_owned(), MIT.to_owned()))
}

/// The text, of the linked packages that are not our own.
///
/// # Errors
/// For a package without words: it must not be shipped.
pub fn notices(title: &str, credited: &[Credited<'_>]) -> Result<String, Untold> {
    let mut list = BTreeMap::new();
    let mut texts: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    for Credited { package, texts: theirs } in credited {
        if package.kind == Kind::Build || package.origin == crate::packages::Origin::Local {
            continue;
        }
        let licence = package.licence.as_deref().map_or_else(|| "see below".to_owned(), expression);
        let name = format!("{} {}", package.name, package.version);
        let words = known_words(&licence);
        let from = package.repository.as_deref().unwrap_or("Rust's package registry");
        list.insert(name.clone(), format!("  {name}\n      {licence}\n      {from}\n"));
        let found: Vec<_> = if theirs.is_empty() { words.into_iter().collect() } else { theirs.clone() };
        if found.is_empty() {
            let Package { name, version, .. } = package;
            return Err(Untold { name: name.clone(), version: version.clone(), licence });
        }
        for (file, text) in found {
            let text = text.replace("\r\n", "\n");
            // One text with other line breaks is one text.
            let key = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let who = format!("  {name} ({file})\n");
            texts.entry(key).or_insert_with(|| (text.trim_end().to_owned(), Vec::new())).1.push(who);
        }
    }
    let rule = "=".repeat(100);
    let mut whole = format!(
        "{title}\n\nIt contains the following software of others, under the licences that follow the list.\n\n"
    );
    whole.extend(list.values().map(String::as_str));
    let mut sorted: Vec<_> = texts.into_values().collect();
    for (_, who) in &mut sorted {
        who.sort();
        who.dedup();
    }
    sorted.sort_by(|(_, a), (_, b)| a.cmp(b));
    for (text, who) in sorted {
        whole.push_str(&format!("\n{rule}\n{}\n{text}\n", who.concat()));
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::Origin;

    fn package(name: &str, licence: &str, kind: Kind) -> Package {
        Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            origin: Origin::Registry,
            kind,
            licence: Some(licence.to_owned()),
            repository: None,
            checksum: None,
            manifest: String::new(),
            dependencies: Vec::new(),
            root: false,
        }
    }

    fn credited<'a>(package: &'a Package, texts: &[&str]) -> Credited<'a> {
        let texts = texts.iter().map(|text| ("LICENSE".to_owned(), (*text).to_owned())).collect();
        Credited { package, texts }
    }

    #[test]
    fn one_text_stands_once_with_all_who_bring_it() {
        let (a, b) = (package("a", "MIT/Apache-2.0", Kind::Linked), package("b", "MIT", Kind::Linked));
        let text = notices("t", &[credited(&a, &["Be kind.\n"]), credited(&b, &["Be\r\nkind."])]).unwrap();
        assert_eq!(text.matches("kind.").count(), 1, "{text}");
        assert!(text.contains("  a 1.0.0 (LICENSE)\n  b 1.0.0 (LICENSE)\n"), "{text}");
        assert!(text.contains("MIT OR Apache-2.0"), "{text}");
    }

    #[test]
    fn what_is_not_in_the_program_is_not_named() {
        let build = package("a-macro", "MIT", Kind::Build);
        let ours = Package { origin: Origin::Local, ..package("ours", "Apache-2.0", Kind::Linked) };
        let text = notices("t", &[credited(&build, &["x"]), credited(&ours, &[])]).unwrap();
        assert!(!text.contains("a-macro") && !text.contains("ours"), "{text}");
    }

    #[test]
    fn without_a_file_the_words_of_the_named_licence_stand_or_nothing_is_shipped() {
        let mit = package("a", "MIT", Kind::Linked);
        assert!(notices("t", &[credited(&mit, &[])]).unwrap().contains("Permission is hereby granted"));
        let odd = package("b", "Zlib", Kind::Linked);
        let error = notices("t", &[credited(&odd, &[])]).unwrap_err();
        assert!(error.to_string().starts_with("b 1.0.0 brings no text of its licence (Zlib)"), "{error}");
    }
}
