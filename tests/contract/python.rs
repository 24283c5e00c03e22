//! The Python environment that `tests/contract/python` makes.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::process::{Folder, LIMIT, Process, bound};

/// The Python interpreter of `SUNDOWN_PYTHON`. `None` if the variable is not set: the test is then
/// skipped, and its output has the reason.
pub fn interpreter() -> Option<PathBuf> {
    let Some(setting) = std::env::var_os("SUNDOWN_PYTHON") else {
        crate::skip::skip("SUNDOWN_PYTHON is not set; see tests/contract/python");
        return None;
    };
    assert!(
        setting != "required",
        "SUNDOWN_PYTHON=required: run tests/contract/python and give the interpreter that it prints"
    );
    let python = PathBuf::from(setting);
    let has = Command::new(&python)
        .args(["-c", "import moto.server, boto3, awscli"])
        .stdin(Stdio::null())
        .output();
    let fine = has.as_ref().is_ok_and(|output| output.status.success());
    assert!(
        fine,
        "SUNDOWN_PYTHON={} has no moto, boto3 and awscli: run tests/contract/python ({has:?})",
        python.display()
    );
    Some(python)
}

/// A command of Python with nothing of this environment but where to find programs, and credentials
/// that are good for nothing.
pub fn command(python: &Path, folder: &Folder) -> Command {
    let mut command = bound(python);
    command
        .env_clear()
        .env("HOME", folder.path())
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::null());
    command.envs([
        ("AWS_ACCESS_KEY_ID", "AKIAPYTHON"),
        ("AWS_SECRET_ACCESS_KEY", "not-a-secret"),
        ("AWS_DEFAULT_REGION", "eu-west-1"),
    ]);
    command.envs([
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("AWS_PAGER", ""),
        ("PYTHONDONTWRITEBYTECODE", "1"),
    ]);
    command
}

/// moto's server on a port of its own: where it is, and its process.
pub async fn moto(python: &Path, folder: &Folder) -> (String, Process) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = command(python, folder);
    command.args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()]);
    let mut process = Process::start("moto", folder.path(), &mut command);
    let end = Instant::now() + LIMIT;
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        assert!(process.is_alive(), "moto has ended:\n{}", process.last_lines());
        assert!(Instant::now() < end, "moto does not come up:\n{}", process.last_lines());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    (format!("http://127.0.0.1:{port}"), process)
}
