//! The log as a tree, of which `-q` prints the texts and `-x` the elements:
//! each reading is written down once.

/// A part of the log that `-d` can ask for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Memory,
    Utilization,
    Ecc,
    Temperature,
    Power,
    Clock,
    Compute,
    Pids,
    Performance,
    SupportedClocks,
    PageRetirement,
    Accounting,
    EncoderStats,
    SupportedTargetTemperature,
    Voltage,
    FbcStats,
    RowRemapper,
    GspFirmwareVersion,
    PowerSmoothing,
    PowerProfiles,
}

impl Section {
    /// The section of a name, which `-d` takes in any case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "MEMORY" => Self::Memory,
            "UTILIZATION" => Self::Utilization,
            "ECC" => Self::Ecc,
            "TEMPERATURE" => Self::Temperature,
            "POWER" => Self::Power,
            "CLOCK" => Self::Clock,
            "COMPUTE" => Self::Compute,
            "PIDS" => Self::Pids,
            "PERFORMANCE" => Self::Performance,
            "SUPPORTED_CLOCKS" => Self::SupportedClocks,
            "PAGE_RETIREMENT" => Self::PageRetirement,
            "ACCOUNTING" => Self::Accounting,
            "ENCODER_STATS" => Self::EncoderStats,
            "SUPPORTED_GPU_TARGET_TEMP" => Self::SupportedTargetTemperature,
            "VOLTAGE" => Self::Voltage,
            "FBC_STATS" => Self::FbcStats,
            "ROW_REMAPPER" => Self::RowRemapper,
            "GSP_FIRMWARE_VERSION" => Self::GspFirmwareVersion,
            "POWER_SMOOTHING" => Self::PowerSmoothing,
            "POWER_PROFILES" => Self::PowerProfiles,
            _ => return None,
        })
    }
}

/// Where a node of the tree is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Everywhere,
    /// Only where `-d` asks for its section.
    OnRequest,
    /// Only in XML.
    InXml,
    /// Only in text.
    InText,
}

/// A reading, or a block of them.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Its name in the log.
    title: &'static str,
    /// Its name in XML.
    element: &'static str,
    content: Content,
    /// By which name `-d` finds it, at the top of the tree.
    section: Option<Section>,
    shown: Shown,
    /// What XML says instead of the log's value.
    xml: Option<String>,
    /// XML has it no deeper than the block around it.
    outdented: bool,
    /// Processes kept the column of old drivers when the log's became wider.
    narrow: bool,
}

#[derive(Clone, Debug)]
enum Content {
    Value(String),
    Block(Vec<Node>),
    /// A block that XML closes on the line that opens it, with a word inside.
    Word(&'static str),
}

/// A reading.
pub(super) fn entry(title: &'static str, element: &'static str, value: impl Into<String>) -> Node {
    Node::new(title, element, Content::Value(value.into()))
}

/// A block of readings.
pub(super) fn block(title: &'static str, element: &'static str, nodes: Vec<Node>) -> Node {
    Node::new(title, element, Content::Block(nodes))
}

/// An element that says in one word that it is empty; the log has no line for it.
pub(super) fn word(element: &'static str, word: &'static str) -> Node {
    Node { shown: Shown::InXml, ..Node::new("", element, Content::Word(word)) }
}

impl Node {
    fn new(title: &'static str, element: &'static str, content: Content) -> Self {
        Self {
            title,
            element,
            content,
            section: None,
            shown: Shown::Everywhere,
            xml: None,
            outdented: false,
            narrow: false,
        }
    }

    /// It belongs to this section.
    pub(super) fn in_section(self, section: Section) -> Self {
        Self { section: Some(section), ..self }
    }

    /// It is printed only where `-d` asks for its section.
    pub(super) fn on_request(self) -> Self {
        Self { shown: Shown::OnRequest, ..self }
    }

    /// It is printed in XML only.
    pub(super) fn in_xml(self) -> Self {
        Self { shown: Shown::InXml, ..self }
    }

    /// It is printed in the log only.
    pub(super) fn in_text(self) -> Self {
        Self { shown: Shown::InText, ..self }
    }

    /// XML has another value.
    pub(super) fn with_xml(self, value: impl Into<String>) -> Self {
        Self { xml: Some(value.into()), ..self }
    }

    /// XML has it no deeper than the block around it.
    pub(super) fn outdented(self) -> Self {
        Self { outdented: true, ..self }
    }

    /// Its column, and that of what is in it, stays narrow.
    pub(super) fn narrow(self) -> Self {
        Self { narrow: true, ..self }
    }

    /// Whether it is printed where these sections are asked for; none means the
    /// whole log.
    fn is_wanted(&self, sections: &[Section]) -> bool {
        match self.shown {
            Shown::InXml => false,
            Shown::OnRequest => self.section.is_some_and(|section| sections.contains(&section)),
            Shown::Everywhere | Shown::InText => {
                sections.is_empty() || self.section.is_some_and(|section| sections.contains(&section))
            }
        }
    }
}

/// The column of values in the log of old drivers, and of processes always.
pub(super) const NARROW: usize = 42;

/// The log's lines of one GPU.
pub(super) fn text(nodes: &[Node], sections: &[Section], column: usize) -> String {
    let mut out = String::new();
    for node in nodes.iter().filter(|node| node.is_wanted(sections)) {
        lines(node, 1, column, &mut out);
    }
    out
}

fn lines(node: &Node, depth: usize, column: usize, out: &mut String) {
    let column = if node.narrow { NARROW } else { column };
    let title = format!("{}{}", " ".repeat(depth * 4), node.title);
    match &node.content {
        Content::Value(value) => out.push_str(&format!("{title:<column$}: {value}\n")),
        Content::Block(nodes) => {
            // A block without a title only holds its nodes together.
            let inner = if node.title.is_empty() {
                depth
            } else {
                out.push_str(&format!("{title}\n"));
                depth + 1
            };
            for node in nodes.iter().filter(|node| node.shown != Shown::InXml) {
                lines(node, inner, column, out);
            }
        }
        Content::Word(_) => {}
    }
}

/// The elements of one GPU.
pub(super) fn xml(nodes: &[Node], depth: usize) -> String {
    let mut out = String::new();
    for node in nodes {
        elements(node, depth, &mut out);
    }
    out
}

fn elements(node: &Node, depth: usize, out: &mut String) {
    if matches!(node.shown, Shown::OnRequest | Shown::InText) {
        return;
    }
    let depth = if node.outdented { depth - 1 } else { depth };
    let (tabs, element) = ("\t".repeat(depth), node.element);
    match &node.content {
        Content::Value(value) => {
            let value = escaped(node.xml.as_ref().unwrap_or(value));
            out.push_str(&format!("{tabs}<{element}>{value}</{element}>\n"));
        }
        Content::Block(nodes) => {
            let inner = if element.is_empty() {
                depth
            } else {
                out.push_str(&format!("{tabs}<{element}>\n"));
                depth + 1
            };
            for node in nodes {
                elements(node, inner, out);
            }
            if !element.is_empty() {
                out.push_str(&format!("{tabs}</{element}>\n"));
            }
        }
        Content::Word(word) => {
            out.push_str(&format!("{tabs}<{element}>\n{tabs}\t{word}\n{tabs}</{element}>\n"));
        }
    }
}

/// A text as XML has it: names of processes may contain anything.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // Control characters have no place in XML 1.0.
            c if c.is_control() && !matches!(c, '\t' | '\n' | '\r') => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tree_is_both_texts() {
        let tree = [
            entry("Bus", "pci_bus", "0x0B").with_xml("0B").in_section(Section::Compute),
            block("Clocks", "clocks", vec![entry("SM", "sm_clock", "345 MHz")]).in_section(Section::Clock),
            entry("Samples", "", "3").in_section(Section::Clock).on_request(),
            word("mig_devices", "None"),
        ];
        let whole = "    Bus   : 0x0B\n    Clocks\n        SM: 345 MHz\n";
        assert_eq!(text(&tree, &[], 10), whole);
        assert_eq!(text(&tree, &[Section::Clock], 10), "    Clocks\n        SM: 345 MHz\n    Samples: 3\n");
        assert_eq!(
            xml(&tree, 1),
            "\t<pci_bus>0B</pci_bus>\n\t<clocks>\n\t\t<sm_clock>345 MHz</sm_clock>\n\t</clocks>\n\t<mig_devices>\n\t\tNone\n\t</mig_devices>\n"
        );
    }

    #[test]
    fn names_cannot_break_out_of_their_element() {
        let tree = [entry("Name", "process_name", "</process_name>&\u{1b}[2J")];
        assert_eq!(xml(&tree, 0), "<process_name>&lt;/process_name&gt;&amp;?[2J</process_name>\n");
    }
}
