//! The site as a reader's browser sees it: every link is followed to the file and to the place in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

/// What was found.
pub(super) struct Found {
    /// How many pages there are.
    pub(super) pages: usize,
    /// How many links they have to places of the site.
    pub(super) links: usize,
    /// Those that lead nowhere: the page, and the link.
    pub(super) broken: Vec<String>,
}

/// Pages that mdBook makes for itself, with paths from where it is served.
const NOT_PAGES: &[&str] = &["404.html", "toc.html"];

/// Follows the links of all pages of a site.
///
/// # Errors
/// When it cannot be read, or has no page.
pub(super) fn follow(site: &Path) -> anyhow::Result<Found> {
    let mut pages = BTreeMap::new();
    collect(site, &mut pages)?;
    ensure!(!pages.is_empty(), "{} has no page", site.display());
    let places: BTreeMap<&PathBuf, BTreeSet<String>> =
        pages.iter().map(|(path, text)| (path, attributes(text, "id").into_iter().collect())).collect();
    let mut found = Found { pages: pages.len(), links: 0, broken: Vec::new() };
    for (page, text) in &pages {
        for link in attributes(text, "href").into_iter().chain(attributes(text, "src")) {
            if link.contains(':') || link.starts_with("//") {
                continue;
            }
            found.links += 1;
            let (path, place) = link.split_once('#').unwrap_or((&link, ""));
            let folder = page.parent().unwrap_or(site);
            let file = if path.is_empty() { page.clone() } else { plain(&folder.join(path)) };
            let there = file.is_file()
                && (place.is_empty() || places.get(&file).is_some_and(|places| places.contains(place)));
            if !there {
                let page = page.strip_prefix(site).unwrap_or(page);
                found.broken.push(format!("  {}: {link}", page.display()));
            }
        }
    }
    Ok(found)
}

fn collect(folder: &Path, pages: &mut BTreeMap<PathBuf, String>) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            collect(&path, pages)?;
        } else if name.ends_with(".html") && !NOT_PAGES.contains(&name.as_ref()) {
            let text =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            pages.insert(path, text);
        }
    }
    Ok(())
}

/// A path without `..`, by its words alone.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                plain.pop();
            }
            std::path::Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// The values that an attribute has on a page, as a browser reads them.
fn attributes(text: &str, name: &str) -> Vec<String> {
    let begin = format!(" {name}=\"");
    let values = text.split(begin.as_str()).skip(1).filter_map(|rest| rest.split('"').next());
    values.map(|value| unescaped(&value.replace("&amp;", "&"))).collect()
}

/// `%EA%B0%80` is a letter.
fn unescaped(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_without_a_file_or_a_heading_is_named_with_its_page() {
        let site = tempfile::tempdir().unwrap();
        fs::create_dir(site.path().join("guides")).unwrap();
        let page = r##"<h1 id="top">T</h1><img src="none.svg"><a href="guides/b.html#가">b</a> <a href="#no">n</a> <a href="https://x/y">x</a>"##;
        fs::write(site.path().join("a.html"), page).unwrap();
        let page = r##"<h2 id="가">가</h2><a href="../a.html#top">a</a> <a href="#%EA%B0%80">s</a> <a href="c.html">c</a>"##;
        fs::write(site.path().join("guides/b.html"), page).unwrap();
        let found = follow(site.path()).unwrap();
        assert_eq!((found.pages, found.links), (2, 6));
        assert_eq!(found.broken, ["  a.html: #no", "  a.html: none.svg", "  guides/b.html: c.html"]);
    }

    #[test]
    fn a_site_without_pages_is_no_site() {
        assert!(follow(tempfile::tempdir().unwrap().path()).is_err());
    }
}
