//! The command `dfdn`.

fn main() {}
