//! Crates of others on Sinew: one test for each, and examples. `docs/works-with.md` has the list.
