//! An interruption and what is known of it → a verdict. All of "ours or not" and "stale until proved", in one table.
