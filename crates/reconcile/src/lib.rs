//! One round of the operator as a pure function: what is seen and remembered
//! to what is due and what is said. Pure: no I/O, no clock.
