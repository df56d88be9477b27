//! Words of the domain: values without I/O, which can't hold anything wrong.

pub mod digest;
pub mod failure;
pub mod id;
pub mod member;
pub mod name;
pub mod number;
pub mod principal;
pub mod range;
pub mod trust;
