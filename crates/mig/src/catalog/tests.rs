use super::*;

#[test]
fn the_embedded_tables_are_consistent() {
    if let Err(error) = Catalog::parse(FILES) {
        panic!("{error}");
    }
}
