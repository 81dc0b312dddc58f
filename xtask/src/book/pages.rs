//! The pages in the form for mdBook: one folder with docs/ and the README, in which a link to another file
//! of the repository is a link to the repository's address.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;

/// The pages' folder, and in it the list of them in their order.
const DOCS: &str = "docs";
const SUMMARY: &str = "docs/SUMMARY.md";
/// The one page of the site that is not in that folder.
const FRONT: &str = "README.md";

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// All files of a folder, as paths from `root`.
fn files(root: &Path, folder: &str) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    let path = root.join(folder);
    for entry in fs::read_dir(&path).with_context(|| format!("cannot read the folder {}", path.display()))? {
        let entry = entry?;
        let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            found.extend(files(root, &name)?);
        } else {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// What the summary lacks of docs/, and what it names twice or in vain.
///
/// # Errors
/// When docs/ cannot be read.
pub(super) fn not_in_the_summary(root: &Path) -> anyhow::Result<Vec<String>> {
    let pages = files(root, DOCS)?.into_iter().filter(|path| path.ends_with(".md") && path != SUMMARY);
    let mut wanted: BTreeSet<String> = pages.collect();
    wanted.insert(FRONT.to_owned());
    Ok(compare(&wanted, &read(&root.join(SUMMARY))?))
}

fn compare(wanted: &BTreeSet<String>, summary: &str) -> Vec<String> {
    let mut named = BTreeSet::new();
    let mut wrong = Vec::new();
    each_link(summary, |target| {
        let page = resolve(SUMMARY, target);
        if !wanted.contains(&page) {
            wrong.push(format!("{target}: there is no such page"));
        } else if !named.insert(page) {
            wrong.push(format!("{target}: it is named twice"));
        }
        None
    });
    wrong.extend(wanted.difference(&named).map(|page| format!("{page}: it is not named")));
    wrong
}

/// Lays the pages out in `work`, as a book: its configuration, and `src`.
///
/// # Errors
/// When something cannot be read or written.
pub(super) fn lay_out(root: &Path, work: &Path) -> anyhow::Result<()> {
    let configuration = read(&root.join("book.toml"))?;
    let repository = repository(&configuration).context("book.toml names no git-repository-url")?;
    let write = |path: &str, bytes: &[u8]| -> anyhow::Result<()> {
        let to = work.join(path);
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        fs::write(&to, bytes).with_context(|| format!("cannot write {}", to.display()))
    };
    write("book.toml", configuration.as_bytes())?;
    for path in files(root, DOCS)?.into_iter().chain([FRONT.to_owned()]) {
        let at = format!("src/{}", on_site(&path).unwrap_or(&path));
        if path.ends_with(".md") {
            let text = each_link(&read(&root.join(&path))?, |target| moved(root, repository, &path, target));
            write(&at, text.as_bytes())?;
        } else {
            write(&at, &fs::read(root.join(&path)).with_context(|| format!("cannot read {path}"))?)?;
        }
    }
    Ok(())
}

fn repository(configuration: &str) -> Option<&str> {
    let line = configuration.lines().find_map(|line| line.strip_prefix("git-repository-url = \""))?;
    line.strip_suffix('"')
}

/// Where a file of the repository is in the site's source; nothing where it is
/// no part of the site.
fn on_site(path: &str) -> Option<&str> {
    if path == FRONT { Some(path) } else { path.strip_prefix("docs/") }
}

/// A link of a page as the site needs it, where that is not as it stands.
fn moved(root: &Path, repository: &str, page: &str, target: &str) -> Option<String> {
    if target.starts_with('#') || target.contains(':') {
        return None;
    }
    let (_, anchor) = target.split_at(target.find('#').unwrap_or(target.len()));
    let path = resolve(page, target);
    match on_site(&path).filter(|_| root.join(&path).is_file()) {
        Some(there) => {
            let up = on_site(page).unwrap_or(page).matches('/').count();
            // mdBook makes the index of its folder of it, and does not say so to those who link to it.
            let front = there.strip_suffix("README.md").filter(|_| page != SUMMARY);
            let there = front.map_or_else(|| there.to_owned(), |folder| format!("{folder}index.md"));
            Some(format!("{}{there}{anchor}", "../".repeat(up)))
        }
        None => {
            let kind = if root.join(&path).is_dir() { "tree" } else { "blob" };
            Some(format!("{repository}/{kind}/main/{path}{anchor}"))
        }
    }
}

/// The file that a link of a page means, from the root of the repository.
fn resolve(page: &str, target: &str) -> String {
    let (target, _) = target.split_once('#').unwrap_or((target, ""));
    let mut path = PathBuf::from(page);
    path.pop();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    path.to_string_lossy().into_owned()
}

/// A page with every link of its prose as `change` says, or as it is. What is
/// fenced, or quoted as code, holds no link.
fn each_link(page: &str, mut change: impl FnMut(&str) -> Option<String>) -> String {
    let mut changed = String::with_capacity(page.len());
    let mut fenced = false;
    for line in page.split_inclusive('\n') {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("](").filter(|_| !fenced && !fence) {
            let Some((target, after)) = after.split_once(')') else { break };
            let target = change(target).unwrap_or_else(|| target.to_owned());
            changed.push_str(&format!("{before}]({target})"));
            rest = after;
        }
        changed.push_str(rest);
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_every_page_of_docs_once() {
        assert_eq!(not_in_the_summary(crate::root()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_page_that_the_summary_lacks_or_makes_up_is_named() {
        let wanted = ["docs/a.md", "docs/b/c.md"].map(str::to_owned).into();
        let summary = "- [A](a.md)\n- [again](a.md)\n- [none](d.md)\n";
        assert_eq!(
            compare(&wanted, summary),
            ["a.md: it is named twice", "d.md: there is no such page", "docs/b/c.md: it is not named"]
        );
    }

    #[track_caller]
    fn check(page: &str, target: &str, expect: Option<&str>) {
        let root = tempfile::tempdir().unwrap();
        for file in ["README.md", "docs/a.md", "docs/guides/b.md", "charts/c.md"] {
            fs::create_dir_all(root.path().join(file).parent().unwrap()).unwrap();
            fs::write(root.path().join(file), "").unwrap();
        }
        assert_eq!(moved(root.path(), "https://host/us", page, target).as_deref(), expect);
    }

    #[test]
    fn a_link_leads_to_the_page_of_the_site_or_to_the_repository() {
        check("docs/a.md", "guides/b.md#x", Some("guides/b.md#x"));
        check("docs/guides/b.md", "../a.md", Some("../a.md"));
        check("docs/guides/b.md", "../../README.md", Some("../index.md"));
        check("docs/SUMMARY.md", "../README.md", Some("README.md"));
        check("README.md", "docs/guides/b.md", Some("guides/b.md"));
        check("docs/guides/b.md", "../../charts/c.md#y", Some("https://host/us/blob/main/charts/c.md#y"));
        check("docs/a.md", "guides", Some("https://host/us/tree/main/docs/guides"));
        check("docs/a.md", "#here", None);
        check("docs/a.md", "https://elsewhere/x", None);
    }

    #[test]
    fn what_is_fenced_holds_no_link() {
        let page = "[a](b) and [c](d)\n```\n[e](f)\n```\n[g](h";
        let said = each_link(page, |target| Some(target.to_uppercase()));
        assert_eq!(said, "[a](B) and [c](D)\n```\n[e](f)\n```\n[g](h");
    }
}
