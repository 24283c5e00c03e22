//! What Linux says of processes.

use std::fs;

/// A line of `/proc/PROCESS/status`, in MB.
pub fn memory(process: u32, field: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix(field)?.strip_prefix(':')).unwrap();
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib * 1024.0 / 1e6
}

/// CPU seconds of a process so far, of all its threads.
pub fn cpu_seconds(process: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // After the name, which is in brackets: the 12th and 13th are user and system time in
    // hundredths of a second.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11..13].iter().map(|f| f.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

/// Seconds in which a core had nothing to do, of all cores together.
pub fn idle_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    // cpu, user, nice, system, idle, iowait.
    let fields: Vec<&str> = stat.lines().next().unwrap().split_whitespace().collect();
    fields[4..6].iter().map(|f| f.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}
