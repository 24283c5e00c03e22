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

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(lines: &mut Lines) -> Vec<String> {
        std::iter::from_fn(|| lines.next().unwrap())
            .map(|l| String::from_utf8(l.to_vec()).unwrap())
            .collect()
    }

    #[test]
    fn lines_are_found_however_the_stream_is_cut() {
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
    fn a_line_without_end_is_given_up() {
        let mut lines = Lines::default();
        for _ in 0..=Lines::LONGEST / 1_000_000 {
            assert_eq!(lines.next(), Ok(None));
            lines.push(&vec![b'x'; 1_000_000]);
        }
        assert_eq!(lines.next(), Err(()));
    }
}
