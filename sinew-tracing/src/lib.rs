#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

use sinew::context::{self, Attached, Context};
use std::cell::{Cell, RefCell};
use std::mem;
use std::rc::Rc;
use std::sync::OnceLock;
use tracing_core::dispatcher::WeakDispatch;
use tracing_core::span::Id;
use tracing_core::{Dispatch, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer;

/// A layer that keeps the entered spans of each fibre apart: see the [crate].
#[derive(Debug, Default)]
pub struct FollowFibres {
    /// The subscriber that the layer is part of.
    dispatch: OnceLock<WeakDispatch>,
}

impl FollowFibres {
    /// Returns the layer.
    pub fn new() -> FollowFibres {
        FollowFibres::default()
    }
}

impl<S: Subscriber> Layer<S> for FollowFibres {
    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        // A layer that is shared by two subscribers follows the spans of the first.
        let _ = self.dispatch.set(dispatch.downgrade());
    }

    fn on_enter(&self, id: &Id, _: layer::Context<'_, S>) {
        if let Some(dispatch) = self.dispatch.get() {
            with_spans(|spans| spans.note_entry(dispatch, id));
        }
    }

    fn on_exit(&self, id: &Id, _: layer::Context<'_, S>) {
        with_spans(|spans| spans.note_exit(id));
    }
}

/// Calls `f` with the spans of the calling fibre, unless that fibre is ending.
fn with_spans(f: impl FnOnce(&Rc<Spans>)) {
    sinew::fibre_local!(static SPANS: Rc<Spans> = Rc::new(Spans::new()));
    let _ = SPANS.try_with(f);
}

/// The spans that a fibre has entered. A kernel thread that runs no fibre has one, too.
struct Spans {
    /// The innermost last.
    entered: RefCell<Vec<Entered>>,
    /// There while `entered` is not empty.
    attached: Cell<Option<Attached>>,
    /// Whether the entries and exits are those of a switch.
    is_switching: Cell<bool>,
    in_fibre: bool,
}

struct Entered {
    dispatch: WeakDispatch,
    id: Id,
}

impl Spans {
    fn new() -> Spans {
        Spans {
            entered: RefCell::default(),
            attached: Cell::default(),
            is_switching: Cell::new(false),
            in_fibre: !sinew::current().is_kernel_thread(),
        }
    }

    fn note_entry(self: &Rc<Self>, dispatch: &WeakDispatch, id: &Id) {
        if self.is_switching.get() {
            return;
        }
        self.entered.borrow_mut().push(Entered { dispatch: dispatch.clone(), id: id.clone() });
        if self.entered.borrow().len() == 1 {
            let context: Rc<Spans> = Rc::clone(self);
            self.attached.set(Some(context::attach(context)));
        }
    }

    fn note_exit(&self, id: &Id) {
        if self.is_switching.get() {
            return;
        }
        let mut entered = self.entered.borrow_mut();
        // Spans may be exited in another order than they were entered.
        if let Some(place) = entered.iter().rposition(|entered| entered.id == *id) {
            entered.remove(place);
        }
        if entered.is_empty() {
            self.attached.take();
        }
    }

    /// Calls `f` with the spans. The layer ignores the entries and exits that `f` makes.
    fn switch(&self, f: impl FnOnce(&[Entered])) {
        self.is_switching.set(true);
        let entered = mem::take(&mut *self.entered.borrow_mut());
        f(&entered);
        *self.entered.borrow_mut() = entered;
        self.is_switching.set(false);
    }
}

impl Entered {
    fn exit(&self) {
        if let Some(dispatch) = self.dispatch.upgrade() {
            dispatch.exit(&self.id);
        }
    }

    fn enter(&self) {
        if let Some(dispatch) = self.dispatch.upgrade() {
            dispatch.enter(&self.id);
        }
    }
}

impl Context for Spans {
    fn suspend(&self) {
        self.switch(|entered| entered.iter().rev().for_each(Entered::exit));
    }

    fn resume(&self) {
        self.switch(|entered| entered.iter().for_each(Entered::enter));
    }
}

/// A fibre that ends in a span leaves it, so that the next fibre begins in none.
impl Drop for Spans {
    fn drop(&mut self) {
        if self.in_fibre {
            self.entered.get_mut().iter().rev().for_each(Entered::exit);
        }
    }
}
