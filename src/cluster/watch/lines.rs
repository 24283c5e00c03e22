//! Splits the body of a watch into lines.

use bytes::{Bytes, BytesMut};

/// Splits a stream into lines.
#[derive(Default)]
pub(super) struct Lines {
    buffer: BytesMut,
    /// The buffer has no line end before this index.
    searched: usize,
}

impl Lines {
    /// The longest line, in bytes. An object in etcd has 1.5 MiB at most.
    const LONGEST: usize = 16 * 1024 * 1024;

    pub(super) fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    /// The next complete line that is not empty. Errs when a line is too long.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, ()> {
        loop {
            let rest = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(end) = rest.iter().position(|b| *b == b'\n') else {
                self.searched = self.buffer.len();
                if self.searched == 0 {
                    // Frees the memory of a burst of long lines.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(lines: &mut Lines) -> Vec<String> {
        std::iter::from_fn(|| lines.next().unwrap())
            .map(|l| String::from_utf8(l.to_vec()).unwrap())
            .collect()
    }

    #[test]
    fn lines_are_found_wherever_the_stream_is_split() {
        let text = b"{\"a\":1}\n\n{\"b\":2}\r\n{\"c\"";
        for size in 1..=text.len() {
            let mut lines = Lines::default();
            let mut all = Vec::new();
            for chunk in text.chunks(size) {
                lines.push(chunk);
                all.extend(taken(&mut lines));
            }
            assert_eq!(all, ["{\"a\":1}", "{\"b\":2}\r"], "{size}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_an_error() {
        let mut lines = Lines::default();
        for _ in 0..=Lines::LONGEST / 1_000_000 {
            assert_eq!(lines.next(), Ok(None));
            lines.push(&vec![b'x'; 1_000_000]);
        }
        assert_eq!(lines.next(), Err(()));
    }
}
