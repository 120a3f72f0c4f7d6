//! A stack that others use.
//!
//! A wait gives others the address of something on the caller's stack: a node in a queue, a parker, a
//! timer, a closure that borrows. They use it until they have signalled the wait. If a panic unwound the
//! wait, they would go on to use a stack that is gone. So each such wait is within a [`Lent`], from the
//! moment at which others may know the address to the moment at which nobody does. A call that can be
//! refused is refused before that.

/// Exists while something on the caller's stack is lent. A panic that drops it ends the process.
#[must_use]
pub(crate) struct Lent;

impl Lent {
    #[inline(always)]
    pub(crate) fn begin() -> Lent {
        Lent
    }

    /// Ends the loan: nobody else uses the caller's stack any more.
    #[inline(always)]
    pub(crate) fn returned(self) {
        std::mem::forget(self);
    }
}

/// Not in models: a model that fails unwinds, and the panic says what failed.
#[cfg(not(sinew_loom))]
impl Drop for Lent {
    #[cold]
    fn drop(&mut self) {
        crate::base::fatal("a panic would have freed a stack that another fibre or thread uses");
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;
    use std::process::Command;

    /// Set in a process that runs a test's body.
    const BODY: &str = "SINEW_TEST_BODY";

    #[test]
    fn a_panic_while_a_stack_is_lent_ends_the_process() {
        if std::env::var_os(BODY).is_some() {
            let unwound = std::panic::catch_unwind(|| {
                let _lent = Lent::begin();
                panic!("as it should");
            });
            unreachable!("unwound: {}", unwound.is_err());
        }
        let test = "wait::lent::tests::a_panic_while_a_stack_is_lent_ends_the_process";
        let child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(BODY, "1")
            .output();
        let child = child.unwrap();
        let said = String::from_utf8_lossy(&child.stderr);
        assert!(!child.status.success() && said.contains("sinew: fatal: a panic would have freed"), "{child:?}");
    }

    #[test]
    fn a_stack_that_was_returned_may_be_unwound() {
        let unwound = std::panic::catch_unwind(|| {
            Lent::begin().returned();
            panic!("as it should");
        });
        assert!(unwound.is_err());
    }
}
