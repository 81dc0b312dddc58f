//! What whole numbers are multiples of.

/// The greatest common divisor of two numbers that are not negative; of a number and zero, the number.
pub(crate) const fn common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_a_multiple_of_every_number() {
        for (a, b, greatest) in
            [(0, 0, 0), (0, 6, 6), (6, 0, 6), (4, 6, 2), (6, 4, 2), (7, 5, 1), (12, 12, 12)]
        {
            assert_eq!(common_divisor(a, b), greatest, "{a} and {b}");
        }
    }
}
