//! How shells report what happens in them, so that others can count it.

/// Receives the events of one kind: the calls of a client, what happens to messages. It is called
/// from many tasks at once, and must not block. `()` ignores all events.
pub trait Observer<E>: Send + Sync + 'static {
    /// Something has happened.
    fn observe(&self, event: E);
}

impl<E> Observer<E> for () {
    fn observe(&self, _: E) {}
}
