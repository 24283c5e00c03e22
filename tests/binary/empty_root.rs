//! The binary in a root directory that holds what the base image of deploy/Dockerfile holds, and
//! nothing else: a library that is missing there, the bundle of certificates or the resolver would
//! be missed by the first pod that starts, and by no other test.
//!
//! Such a root is entered by root (`chroot`), or in a user namespace (`unshare`). Where there is
//! neither, these tests report that they are skipped; tests/run names it, and `tests/run
//! --all` fails.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use sundown::sim::http::loopback;
use tokio::{
    io::copy_bidirectional,
    net::{TcpStream, UdpSocket},
};

use crate::{
    notifying::authority,
    process::{CommandOutput, Folder, Process, binary, bound, run},
    stage::Stage,
};

/// Of Debian's packages `libc6` and `libgcc-s1`, which gcr.io/distroless/cc has. It has OpenSSL's,
/// too; that Sundown must do without.
const OF_THE_BASE: &[&str] = &[
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libgcc_s.so.1",
];
/// Where the base image has its certificates, as its variable `SSL_CERT_FILE` defines.
const BUNDLE: &str = "etc/ssl/certs/ca-certificates.crt";
/// The user of the image.
const USER: &str = "65532";

/// How a root can be entered here.
#[derive(Clone, Copy)]
enum Door {
    Chroot,
    Namespace,
}

impl Door {
    /// `None` if there is no way; the output of the test has the reason.
    fn found() -> Option<Self> {
        let works = |program: &str, args: &[&str]| {
            Command::new(program)
                .args(args)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
        };
        if works("chroot", &["--userspec=65532:65532", "/", "true"]) {
            return Some(Self::Chroot);
        }
        if works(
            "unshare",
            &["--user", "--map-user=65532", "--map-group=65532", "--root=/", "true"],
        ) {
            return Some(Self::Namespace);
        }
        crate::skip::skip(
            "an empty root can be entered neither by chroot nor in a user namespace here",
        );
        None
    }

    /// The binary in `root`, as the user of the image, with the variables of the base image.
    fn sundown(self, root: &Path) -> Command {
        let mut command = match self {
            Self::Chroot => {
                let mut command = bound(&program("chroot"));
                command.arg(format!("--userspec={USER}:{USER}")).arg(root);
                command
            }
            Self::Namespace => {
                let mut command = bound(&program("unshare"));
                command
                    .args(["--user", &format!("--map-user={USER}"), &format!("--map-group={USER}")])
                    .arg(format!("--root={}", root.display()));
                command
            }
        };
        command.arg("/usr/local/bin/sundown").env_clear().stdin(Stdio::null());
        command
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("SSL_CERT_FILE", format!("/{BUNDLE}"));
        command
    }
}

/// Where a program is: it is started with the PATH of the image.
fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.exists())
        .unwrap_or_else(|| panic!("{name} is nowhere in the PATH"))
}

/// The files that the dynamic loader would load for a binary, as `ldd` lists them. Errs with what
/// the base image has not.
fn libraries(ldd: &str) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for line in ldd
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("linux-vdso"))
    {
        let name = line.split_whitespace().next().unwrap();
        let short = name.rsplit('/').next().unwrap();
        if !OF_THE_BASE.contains(&short) {
            return Err(format!("the base image has no {short}"));
        }
        let file = line
            .split_whitespace()
            .find(|word| word.starts_with('/'))
            .ok_or_else(|| format!("{short} is not found here"))?;
        files.push(file.into());
    }
    Ok(files)
}

/// The output of `ldd` for the binary.
fn ldd() -> String {
    let output = Command::new("ldd").arg(binary()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A root as the image has it.
struct Root {
    folder: Folder,
    libraries: Vec<PathBuf>,
}

impl Root {
    fn new() -> Self {
        let root = Self { folder: Folder::new(), libraries: libraries(&ldd()).unwrap() };
        for library in &root.libraries {
            root.copy(library, library.strip_prefix("/").unwrap());
        }
        root.copy(&binary(), Path::new("usr/local/bin/sundown"));
        root.write(
            "etc/passwd",
            "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"
        );
        root.write("etc/group", "root:x:0:\nnonroot:x:65532:\n");
        root.write("etc/nsswitch.conf", "hosts: files dns\n");
        root.write(BUNDLE, &fs::read_to_string(Path::new("/").join(BUNDLE)).unwrap_or_default());
        root
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn copy(&self, from: &Path, to: &Path) {
        let to = self.path().join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, &to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
        fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Writes a file that its user may read and not change.
    fn write(&self, name: &str, text: &str) {
        let file = self.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
    }

    async fn version(&self, door: Door) -> CommandOutput {
        let out = Folder::new();
        run(out.path(), door.sundown(self.path()).arg("--version")).await
    }
}

#[test]
fn no_library_is_needed_that_the_base_image_does_not_have() {
    let found = libraries(&ldd()).unwrap();
    assert!(found.len() >= 2, "a loader and the C library at least: {found:?}");
    let usual = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 \
        (0x2)\n\t/lib64/ld-linux-x86-64.so.2 (0x3)\n";
    assert_eq!(
        libraries(usual).unwrap(),
        ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from)
    );
    let ssl = format!("{usual}\tlibssl.so.3 => /lib/x86_64-linux-gnu/libssl.so.3 (0x4)\n");
    assert_eq!(libraries(&ssl).unwrap_err(), "the base image has no libssl.so.3");
    assert_eq!(
        libraries("\tlibgcc_s.so.1 => not found\n").unwrap_err(),
        "libgcc_s.so.1 is not found here"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn it_starts_with_what_the_base_image_has_and_not_without() {
    let Some(door) = Door::found() else { return };
    let root = Root::new();
    let output = root.version(door).await;
    assert_eq!(
        (output.code, output.out.trim()),
        (Some(0), concat!("sundown ", env!("CARGO_PKG_VERSION"))),
        "{}",
        output.err
    );
    // The libraries of this machine are not those that it has found.
    for library in
        root.libraries.iter().filter(|library| !library.to_string_lossy().contains("/ld-linux"))
    {
        let there = root.path().join(library.strip_prefix("/").unwrap());
        let aside = there.with_extension("aside");
        fs::rename(&there, &aside).unwrap();
        let output = root.version(door).await;
        let name = library.file_name().unwrap().to_string_lossy();
        assert!(
            output.code != Some(0) && output.err.contains(&*name),
            "it starts without {name}: {:?} {}",
            output.code,
            output.err
        );
        fs::rename(&aside, &there).unwrap();
    }
}

/// The stage's AWS by HTTPS, under a name that only this resolver knows, with a certificate of an
/// authority that only the root's bundle has.
struct Aws {
    url: String,
    authority: String,
    resolver: Resolver,
}

/// How the name of AWS is found in the root.
enum Resolver {
    /// A server for names at this address.
    Dns(SocketAddr),
    /// Nobody may listen on port 53 here.
    Hosts,
}

impl Aws {
    async fn start(stage: &Stage) -> Self {
        let folder = Folder::new();
        let tls = authority(&folder);
        let aws = stage.aws_url().trim_start_matches("http://").to_owned();
        let listener = loopback().await.unwrap();
        let url = format!("https://aws.example:{}", listener.local_addr().unwrap().port());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, aws) = (tls.clone(), aws.clone());
                tokio::spawn(async move {
                    let Ok(mut stream) = tls.accept(stream).await else { return };
                    let mut onward = TcpStream::connect(aws).await.unwrap();
                    copy_bidirectional(&mut stream, &mut onward).await.ok();
                });
            }
        });
        let resolver = match UdpSocket::bind("127.0.0.253:53").await {
            Ok(socket) => {
                let address = socket.local_addr().unwrap();
                tokio::spawn(answer_names(socket));
                Resolver::Dns(address)
            }
            Err(_) => Resolver::Hosts,
        };
        Self { url, authority: fs::read_to_string(folder.path().join("ca.pem")).unwrap(), resolver }
    }

    /// What a kubelet gives a pod to find names by.
    fn let_find(&self, root: &Root) {
        match self.resolver {
            Resolver::Dns(address) => root.write(
                "etc/resolv.conf",
                &format!("nameserver {}\noptions timeout:1\n", address.ip()),
            ),
            Resolver::Hosts => root.write("etc/hosts", "127.0.0.1 aws.example\n"),
        }
    }
}

/// A server for names that has 127.0.0.1 for `aws.example`, and nothing else for anybody.
async fn answer_names(socket: UdpSocket) {
    let mut question = [0; 512];
    while let Ok((length, from)) = socket.recv_from(&mut question).await {
        // The name ends with an empty label; its type and class follow.
        let Some(end) =
            question[12..length].iter().position(|byte| *byte == 0).map(|at| 12 + at + 5)
        else {
            continue;
        };
        let ours = question[12..end].starts_with(b"\x03aws\x07example\x00\x00\x01");
        let known = question[12..end].starts_with(b"\x03aws\x07example\x00");
        let mut answer = question[..end].to_vec();
        // A response, recursion offered; the code for "no such name" where it is not ours.
        answer[2..4].copy_from_slice(&[0x81, if known { 0x80 } else { 0x83 }]);
        answer[4..12].copy_from_slice(&[0, 1, 0, u8::from(ours), 0, 0, 0, 0]);
        if ours {
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
        }
        socket.send_to(&answer, from).await.ok();
    }
}

/// `sundown run` in the root, for the world of the stage.
fn start(door: Door, stage: &Stage, root: &Root, aws: &Aws, name: &str) -> Process {
    let kubeconfig = fs::read_to_string(stage.folder.path().join("kubeconfig")).unwrap();
    root.write("kubeconfig", &kubeconfig);
    let mut command = door.sundown(root.path());
    command.args([
        "run",
        "--queue-url",
        &stage.world.queue_url(),
        "--cluster-name",
        stage.world.cluster(),
        "--aws-endpoint-url",
        &aws.url,
    ]);
    command.args([
        "--kubeconfig",
        "/kubeconfig",
        "--metrics-listen",
        "127.0.0.1:0",
        "--probe-listen",
        "127.0.0.1:0",
    ]);
    command.envs([
        ("AWS_ACCESS_KEY_ID", "AKIASUNDOWN"),
        ("AWS_SECRET_ACCESS_KEY", "not-a-secret"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ]);
    Process::start(name, stage.folder.path(), &mut command)
}

#[tokio::test(flavor = "multi_thread")]
async fn it_runs_and_reaches_aws_with_what_the_base_image_has() {
    let Some(door) = Door::found() else { return };
    let (stage, root) = (Stage::new(90).await, Root::new());
    stage.group(2);
    let aws = Aws::start(&stage).await;
    aws.let_find(&root);
    let bundle = fs::read_to_string(root.path().join(BUNDLE)).unwrap();
    root.write(BUNDLE, &(bundle.clone() + &aws.authority));

    let mut process = start(door, &stage, &root, &aws, "whole");
    assert_eq!(process.get("/livez").await, (200, "ok\n".to_owned()));
    process.ready().await;
    process.counts("leader", 1.0).await;
    stage
        .until("it receives through TLS", || stage.world.aws.count("sqs:ReceiveMessage") > 0)
        .await;
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let user = status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .to_owned();
    assert!(matches!(door, Door::Namespace) || user == USER, "it runs as {user}");
    drop(process);

    // The same without what the image brings: none of the two is found elsewhere.
    root.write(BUNDLE, &bundle);
    never_ready(start(door, &stage, &root, &aws, "stranger"), "certificate").await;
    root.write(BUNDLE, &(bundle + &aws.authority));
    for file in ["etc/resolv.conf", "etc/hosts"] {
        fs::remove_file(root.path().join(file)).ok();
    }
    never_ready(start(door, &stage, &root, &aws, "nameless"), "").await;
}

/// Waits until `/readyz` answers 503 because of its queue, with this word.
async fn never_ready(mut process: Process, word: &str) {
    let is_unready = |status: u16, text: &str| {
        status == 503
            && text.contains("queue: ")
            && text.contains("cannot be asked")
            && text.to_lowercase().contains(word)
    };
    process.answers("/readyz", "the queue cannot be asked", is_unready).await;
}
