//! Lines of a stream.

use bytes::{Bytes, BytesMut};

/// Splits a stream into lines.
#[derive(Default)]
pub(super) struct Lines {
    buffer: BytesMut,
    /// Up to here there is no line end.
    searched: usize,
}

impl Lines {
    /// The longest line. An object of etcd has 1.5 MiB at most.
    const LONGEST: usize = 16 * 1024 * 1024;

    pub(super) fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    /// The next whole line; errs when it is too long.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, ()> {
        loop {
            let rest = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(end) = rest.iter().position(|b| *b == b'\n') else {
                self.searched = self.buffer.len();
                if self.searched == 0 {
                    // Gives back what a burst of long lines took.
                    self.buffer = BytesMut::new();
                }
                return if self.searched > Self::LONGEST { Err(()) } else { Ok(None) };
            };
            let line = self.buffer.split_to(self.searched + end + 1).freeze();
            self.searched = 0;
            let line = line.slice(..line.len() - 1);
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
    }
}
