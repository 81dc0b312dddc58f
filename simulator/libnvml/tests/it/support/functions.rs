//! Every function that the library exports, from the committed list of them.

/// One function and what its arguments are.
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Their names and types, in order.
    pub(crate) arguments: Vec<(String, String)>,
}

/// All of them.
pub(crate) fn entries() -> Vec<Entry> {
    let row = |line: &str| {
        let (name, rest) = line.split_once('(').unwrap();
        let arguments = rest.split_once(')').unwrap().0.split(", ").filter(|a| !a.is_empty());
        let argument = |a: &str| a.split_once(": ").map(|(n, t)| (n.to_owned(), t.to_owned())).unwrap();
        Entry { name: name.to_owned(), arguments: arguments.map(argument).collect() }
    };
    include_str!("../../../functions.txt").lines().map(row).collect()
}

/// Whether a function can answer this. That something is not known is what a panic would be told as, so it
/// is an answer only where hardware gives it.
pub(crate) fn is_code(function: &str, code: u32) -> bool {
    let unknown = ["nvmlDeviceGetMinMaxClockOfPState", "nvmlDeviceGetConfComputeGpuCertificate"];
    code <= 30 || code == 999 && unknown.contains(&function)
}
