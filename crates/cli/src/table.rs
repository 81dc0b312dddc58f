//! Tables for the terminal.

use std::io::{self, Write};

/// Columns as wide as they need to be, indented by two; those with nothing but
/// numbers below the header are set right.
pub(crate) fn table(rows: &[Vec<String>], out: &mut dyn Write) -> io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cells = |column: usize| rows.iter().filter_map(move |row| row.get(column));
    let numeric = |text: &String| text == "?" || text.bytes().all(|byte| byte.is_ascii_digit());
    let shape: Vec<(usize, bool)> = (0..columns)
        .map(|column| {
            let width = cells(column).map(String::len).max().unwrap_or(0);
            (width, cells(column).skip(1).all(numeric))
        })
        .collect();
    for row in rows {
        let mut line = String::from(" ");
        for (text, (width, numeric)) in row.iter().zip(&shape) {
            line.push_str(&if *numeric { format!(" {text:>width$}") } else { format!(" {text:<width$}") });
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
