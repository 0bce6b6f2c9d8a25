//! The project's chores: demo, test, tools, tidy, bench.

fn main() {}
