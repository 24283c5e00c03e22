//! How a test is skipped where this machine lacks what it needs.

/// Says on stderr why a test is skipped. With `SUNDOWN_SKIP=no` (`tests/run --all` sets it) the
/// test fails instead: there, a test that checks nothing must not pass.
pub fn skip(why: &str) {
    let may_skip = std::env::var_os("SUNDOWN_SKIP").is_none_or(|value| value != "no");
    assert!(may_skip, "SUNDOWN_SKIP=no, and this test cannot run here: {why}");
    eprintln!("skipped: {why}");
}
