//! The start of PostgreSQL in the testbed's folder, or the use of an existing server.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::Signal;
use tokio::process::Command;

use super::bed::TestbedParts;
use super::inventory::{PartProblem, PostgresSource};
use super::ports;
use super::program::Program;
use crate::wire::PostgresParts;

/// The user that the package of PostgreSQL creates.
const USER: &str = "postgres";
/// The interval between checks of readiness.
const INTERVAL: Duration = Duration::from_millis(50);

/// A user to run a program as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

pub(super) async fn start(bed: &TestbedParts) -> Result<PostgresParts, PartProblem> {
    let bin_dir = match bed.inventory.postgres()? {
        PostgresSource::Url(url) => return Ok(PostgresParts { url, bin_dir: None }),
        PostgresSource::BinDir(bin_dir) => bin_dir,
    };
    let user = if rustix::process::geteuid().is_root() { Some(unprivileged_user()?) } else { None };
    let data = bed.folder.postgres();
    let port = bed
        .run(async |group| {
            make_data_folder(&data, user.as_ref())
                .with_context(|| format!("cannot make {}", data.display()))?;
            group.run(&initdb(&bin_dir, &data).user(user.as_ref())).await?;
            let [port] = ports::free()?;
            group.start(&server(&bin_dir, &data, port).user(user.as_ref()))?;
            group.until("postgres", accepts_connections(&bin_dir, port)).await?;
            Ok(port)
        })
        .await?;
    Ok(PostgresParts { url: format!("postgres://muster@127.0.0.1:{port}/postgres"), bin_dir: Some(bin_dir) })
}

fn initdb(bin_dir: &Path, data: &Path) -> Program {
    Program::new("initdb", bin_dir.join("initdb")).flag("pgdata", data).flag("username", "muster").args([
        "--auth=trust",
        "--encoding=UTF8",
        "--locale=C",
        "--no-sync",
    ])
}

fn server(bin_dir: &Path, data: &Path, port: u16) -> Program {
    Program::new("postgres", bin_dir.join("postgres"))
        .args(["-D".into(), data.to_owned()])
        .args(["-h", "127.0.0.1", "-p", &port.to_string()])
        // The data is discarded, so that no sync is needed.
        .args(["-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"])
        .args(["-c", "max_connections=200"])
        // No Unix socket, whose path could be too long, and no shared memory outside of the folder, which could be left
        // behind.
        .args(["-c", "unix_socket_directories=", "-c", "dynamic_shared_memory_type=mmap"])
        // SIGTERM would wait until the clients disconnect.
        .stopped_by(Signal::INT)
}

async fn accepts_connections(bin_dir: &Path, port: u16) -> Result<()> {
    let program = bin_dir.join("pg_isready");
    loop {
        let mut pg_isready = Command::new(&program);
        pg_isready
            .args(["-q", "-h", "127.0.0.1", "-p", &port.to_string()])
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let status =
            pg_isready.status().await.with_context(|| format!("cannot run {}", program.display()))?;
        if status.success() {
            return Ok(());
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

fn make_data_folder(data: &PathBuf, user: Option<&User>) -> io::Result<()> {
    match fs::remove_dir_all(data) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir(data)?;
    fs::set_permissions(data, fs::Permissions::from_mode(0o700))?;
    if let Some(User { uid, gid }) = user {
        check_way_to(data)?;
        chown(data, Some(*uid), Some(*gid))?;
    }
    Ok(())
}

/// Checks that other users can pass through the parent folders.
fn check_way_to(data: &Path) -> io::Result<()> {
    for folder in data.ancestors().skip(1) {
        if fs::metadata(folder)?.permissions().mode() & 0o001 == 0 {
            let folder = folder.display();
            let why = format!("PostgreSQL runs as `{USER}`, who cannot pass {folder}: choose another --dir");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
    }
    Ok(())
}

/// The user for PostgreSQL if this process runs as root, because PostgreSQL refuses to run as root.
fn unprivileged_user() -> Result<User, PartProblem> {
    let passwd = fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
    user_named(USER, &passwd).ok_or_else(|| {
        PartProblem::Missing(format!(
            "PostgreSQL is missing here (it does not run as root, and there is no user `{USER}`)"
        ))
    })
}

fn user_named(name: &str, passwd: &str) -> Option<User> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut ids = line.split(':').skip(2);
    Some(User { uid: ids.next()?.parse().ok()?, gid: ids.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_comes_from_passwd() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\npostgres:x:101:104:PostgreSQL,,,:/var/lib/postgresql:/bin/bash\n";
        assert_eq!(user_named("postgres", passwd), Some(User { uid: 101, gid: 104 }));
        assert_eq!(user_named("post", passwd), None);
    }

    #[test]
    fn the_server_listens_on_the_loopback_address_alone() {
        let command = server(Path::new("/pg"), Path::new("/d"), 5433).command();
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        let words = words.join(" ");
        assert!(words.contains("/pg/postgres -D /d -h 127.0.0.1 -p 5433 "), "{words}");
        assert!(words.ends_with("-c unix_socket_directories= -c dynamic_shared_memory_type=mmap"), "{words}");
    }
}
