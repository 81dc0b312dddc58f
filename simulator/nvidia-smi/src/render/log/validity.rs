//! Every document is valid by the DTD that the program prints: a second reading of the DTD, which knows nothing of
//! the tree that documents are made of.

use std::collections::BTreeMap;

use super::tests::{l40s, system};
use super::*;
use crate::snapshot::{Attributes, MigDevice};

/// What may be in an element.
#[derive(Debug)]
enum Model {
    /// Text, and nothing else.
    Text,
    /// These, in any order and number; text, too, if it says so.
    Any { names: Vec<String>, text: bool },
    /// These in this order: a name, whether it may be missing, whether it may stand there again.
    Sequence(Vec<(String, bool, bool)>),
}

fn model(text: &str) -> Model {
    if text == "(#PCDATA)" {
        return Model::Text;
    }
    if let Some(inner) = text.strip_prefix('(').and_then(|text| text.strip_suffix(")*")) {
        let names: Vec<_> = inner.split('|').map(|name| name.trim().to_owned()).collect();
        let text = names[0] == "#PCDATA";
        return Model::Any { names, text };
    }
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap();
    let one = |name: &str| {
        let name = name.trim();
        let bare = name.trim_end_matches(['?', '*']);
        (bare.to_owned(), bare != name, name.ends_with('*'))
    };
    Model::Sequence(inner.split(',').map(one).collect())
}

/// The declarations, by element.
fn read(dtd: &str) -> BTreeMap<String, Model> {
    let mut models = BTreeMap::new();
    for declaration in dtd.split("<!ELEMENT ").skip(1) {
        let words = declaration.split('>').next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        let (name, content) = words.split_once(' ').unwrap();
        assert!(models.insert(name.to_owned(), model(content)).is_none(), "{name} is declared twice");
    }
    models
}

/// What is wrong with an element that has these in it.
fn wrong(model: &Model, inside: &[String], has_text: bool) -> Option<String> {
    let names_are_known = |names: &[String]| inside.iter().find(|name| !names.contains(name)).cloned();
    match model {
        Model::Text => inside.first().map(|name| format!("{name} in it")),
        Model::Any { names, text } => {
            let unknown = names_are_known(names).map(|name| format!("{name} in it"));
            unknown.or_else(|| (has_text && !text).then(|| "text in it".to_owned()))
        }
        Model::Sequence(parts) => {
            let mut left = inside;
            for (name, optional, again) in parts {
                let many = left.iter().take_while(|there| *there == name).count();
                if (many == 0 && !optional) || (many > 1 && !again) {
                    return Some(format!("{name} is there {many} times, before {left:?}"));
                }
                left = &left[many..];
            }
            if has_text {
                Some("text in it".to_owned())
            } else {
                left.first().map(|name| format!("{name} behind it"))
            }
        }
    }
}

#[track_caller]
fn valid(document: &str, models: &BTreeMap<String, Model>) {
    let body = &document[document.find("<nvidia_smi_log>").unwrap()..];
    // The elements that are open: a name, what is in it so far, whether it has text.
    let mut open: Vec<(String, Vec<String>, bool)> = Vec::new();
    for part in body.split('<').skip(1) {
        let (tag, text) = part.split_once('>').unwrap();
        if let Some(name) = tag.strip_prefix('/') {
            let (closed, inside, has_text) = open.pop().unwrap();
            assert_eq!(closed, name);
            let model = models.get(name).unwrap_or_else(|| panic!("{name} is not declared"));
            if let Some(wrong) = wrong(model, &inside, has_text) {
                panic!("{name}: {wrong}\n{document}");
            }
        } else {
            let name = tag.split(' ').next().unwrap().to_owned();
            if let Some((_, inside, _)) = open.last_mut() {
                inside.push(name.clone());
            }
            open.push((name, Vec::new(), false));
        }
        if let Some((_, _, has_text)) = open.last_mut() {
            *has_text |= !text.trim().is_empty();
        }
    }
    assert!(open.is_empty());
}

#[test]
fn every_document_is_valid_by_the_dtd() {
    let device = MigDevice { attributes: Some(Attributes::default()), ..MigDevice::default() };
    let cut = Gpu { devices: vec![device; 2], ..l40s() };
    let mut settable = l40s();
    settable.readings.clocks.supported = vec![(9001, vec![2520, 2505]), (405, Vec::new())];
    let nodes = [vec![], vec![l40s(), Gpu::default()], vec![cut, Gpu::default()], vec![settable]];
    for driver in [
        "450.80.02",
        "470.57.02",
        "515.86.01",
        "525.60.13",
        "535.54.03",
        "545.23.08",
        "550.54.14",
        "555.42.02",
        "560.35.03",
        "570.86.10",
        "570.169",
        "575.51.02",
        "580.65.06",
        "580.126.09",
        "590.48.01",
        "595.80",
    ] {
        let models = read(&dtd(Driver::from_version(driver)));
        for gpus in &nodes {
            valid(&document("", &system(driver), gpus, 2, false), &models);
        }
    }
}

#[test]
fn a_document_that_is_not_valid_is_found() {
    let models = read(&dtd(Driver::from_version("595.80")));
    let text = document("", &system("595.80"), &[l40s()], 1, false);
    for (what, instead) in [
        ("<current_mig>", "<pending_mig></pending_mig><current_mig>"),
        ("<uuid>", "<uid></uid><uuid>"),
        ("<fb_memory_usage>", "<fb_memory_usage>0"),
        ("<attached_gpus>1</attached_gpus>", ""),
    ] {
        let broken = text.replacen(what, instead, 1);
        assert_ne!(broken, text);
        assert!(std::panic::catch_unwind(|| valid(&broken, &models)).is_err(), "{instead}");
    }
}

#[test]
fn the_dtd_says_its_name_and_stands_in_the_document_that_asks_for_it() {
    let driver = Driver::from_version("535.54.03");
    assert!(dtd(driver).starts_with("<!-- nvsmi_device_v12.dtd -->\n<!ELEMENT nvidia_smi_log "));
    let text = document("", &system("535.54.03"), &[], 0, true);
    let (head, rest) = text.split_once("]>\n").unwrap();
    assert_eq!(head, format!("<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log [\n{}", dtd(driver)));
    assert!(rest.starts_with("<nvidia_smi_log>\n"));
}
