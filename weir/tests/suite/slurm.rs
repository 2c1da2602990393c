// SPDX-License-Identifier: GPL-2.0-only
//! `weir sweep --on slurm` on a real Slurm of one node, whose daemons the test starts.

use super::sweep::{good, tables, whole, workspace};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest time until a daemon answers.
const ANSWER: Duration = Duration::from_secs(60);

/// The daemons, which end with it.
struct Cluster {
    directory: tempfile::TempDir,
    daemons: Vec<Child>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Why there can be no cluster on this machine.
fn lack() -> Option<String> {
    let has = |name: &str| std::env::split_paths("/usr/sbin:/usr/bin").any(|path| path.join(name).exists());
    if printed("id", &["-u"]) != "0" {
        return Some("Slurm's daemons need root".to_owned());
    }
    let missing = ["slurmctld", "slurmd", "sbatch", "squeue", "munged"].into_iter().find(|name| !has(name));
    missing.map(|name| format!("{name} is not installed (packages slurm-wlm and munge)"))
}

impl Cluster {
    fn start() -> Cluster {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        let mut cluster = Cluster { directory, daemons: Vec::new() };
        for name in ["munge", "state", "spool"] {
            fs::create_dir(path.join(name)).unwrap();
        }
        let key: Vec<u8> = (0..1024).map(|at| (at * 7 + std::process::id() as usize) as u8).collect();
        fs::write(path.join("munge/key"), key).unwrap();
        run("chmod", &["755", path.to_str().unwrap()]);
        run("chmod", &["400", path.join("munge/key").to_str().unwrap()]);
        run("chown", &["-R", "munge:munge", path.join("munge").to_str().unwrap()]);
        let socket = path.join("munge/socket");
        let of_munge = [
            ("key-file", "key"),
            ("socket", "socket"),
            ("log-file", "log"),
            ("pid-file", "pid"),
            ("seed-file", "seed"),
        ];
        let mut munged = Command::new("setpriv");
        munged.args(["--reuid=munge", "--regid=munge", "--init-groups", "munged", "--foreground", "--force"]);
        munged.args(of_munge.map(|(option, name)| format!("--{option}={}", path.join("munge").join(name).display())));
        cluster.spawn(&mut munged);
        until("munged", || socket.exists());
        fs::write(cluster.configuration(), configuration(&path)).unwrap();
        cluster.spawn(Command::new("slurmctld").arg("-D"));
        cluster.start_node();
        cluster
    }

    fn configuration(&self) -> PathBuf {
        self.directory.path().join("slurm.conf")
    }

    fn spawn(&mut self, command: &mut Command) {
        let command = command.env("SLURM_CONF", self.configuration());
        self.daemons.push(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }

    /// Starts the daemon of the node, and waits until the controller knows it.
    fn start_node(&mut self) {
        self.spawn(Command::new("slurmd").arg("-D"));
        let idle = || {
            let output =
                Command::new("sinfo").args(["-h", "-o", "%T"]).env("SLURM_CONF", self.configuration()).output();
            let state = String::from_utf8(output.unwrap().stdout).unwrap();
            ["idle", "mixed", "allocated"].contains(&state.trim())
        };
        until("slurmd", idle);
    }
}

fn run(program: &str, words: &[&str]) {
    assert!(Command::new(program).args(words).status().unwrap().success(), "{program} {words:?}");
}

/// The first line that a command prints.
fn printed(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn until(what: &str, is_true: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < ANSWER, "{what} does not answer");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A port that nothing listens on now.
fn port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn configuration(path: &Path) -> String {
    let host = printed("hostname", &["-s"]);
    let (directory, controller, node) = (path.display(), port(), port());
    format!(
        "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={controller}\nSlurmdPort={node}\nAuthType=auth/munge\n\
         AuthInfo=socket={directory}/munge/socket\nCredType=cred/munge\nMpiDefault=none\nProctrackType=proctrack/linuxproc\n\
         TaskPlugin=task/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSlurmUser=root\nReturnToService=2\n\
         StateSaveLocation={directory}/state\nSlurmdSpoolDir={directory}/spool\nSlurmctldPidFile={directory}/slurmctld.pid\n\
         SlurmdPidFile={directory}/slurmd.pid\nSlurmctldLogFile={directory}/slurmctld.log\n\
         SlurmdLogFile={directory}/slurmd.log\n\
         NodeName={host} NodeAddr=127.0.0.1 CPUs=2\nPartitionName=main Nodes=ALL Default=YES\n"
    )
}

impl Cluster {
    /// Begins a campaign, and returns when its first job has kept a result.
    fn begin(&self, directory: &Path, out: &str) -> Child {
        let line = format!("sweep c.toml --out {out} --on slurm --parts 6 --format json");
        let child = super::sweep::command(directory, &line).env("SLURM_CONF", self.configuration()).spawn().unwrap();
        let results = directory.join(out).join("results");
        until("the first job", || fs::read_dir(&results).is_ok_and(|entries| entries.count() > 0));
        child
    }

    /// Waits for a campaign that succeeds. Returns its messages.
    fn end(&self, child: Child) -> String {
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let log = fs::read_to_string(self.directory.path().join("slurmctld.log")).unwrap_or_default();
        assert_eq!(output.status.code(), Some(0), "{errors}\n{log}");
        errors
    }
}

/// Jobs that are lost at once, and a controller that does not answer twice.
#[test]
fn unfinished_runs_are_submitted_again_as_another_number_of_parts() {
    let directory = workspace(2);
    let path = directory.path();
    let answer = "#!/bin/sh\n[ -e twice ] && exit 0\n[ -e once ] && touch twice\ntouch once\n\
                  echo 'Unable to contact slurm controller' >&2\nexit 1\n";
    for (name, script) in [("sbatch", "#!/bin/sh\necho \"$3\" >> submitted\necho 7\n"), ("squeue", answer)] {
        fs::write(path.join(name), script).unwrap();
        run("chmod", &["755", path.join(name).to_str().unwrap()]);
    }
    let mut sweep = super::sweep::command(path, "sweep c.toml --out out --on slurm --parts 6");
    let commands = format!("{}:{}", path.display(), std::env::var("PATH").unwrap());
    let output = sweep.env("PATH", commands).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let submitted = fs::read_to_string(path.join("submitted")).unwrap();
    assert_eq!(submitted.lines().collect::<Vec<_>>(), ["--array=1-6", "--array=1-5", "--array=1-4"]);
    assert_eq!(errors.matches("squeue: Unable to contact slurm controller").count(), 1, "{errors}");
}

#[test]
#[ignore = "starts Slurm's daemons; part of make test-all, where slurm-wlm and munge are installed"]
fn campaign_by_slurm_has_the_tables_of_one_computer_although_a_node_daemon_is_killed() {
    if let Some(lack) = lack() {
        return skip::skip(lack);
    }
    let directory = workspace(30);
    let path = directory.path();
    let expected = whole(path);
    let mut cluster = Cluster::start();
    let mut sweep = cluster.begin(path, "out");
    let mut node = cluster.daemons.pop().unwrap();
    node.kill().unwrap();
    node.wait().unwrap();
    assert!(sweep.try_wait().unwrap().is_none(), "the campaign had ended before its node daemon was killed");
    cluster.start_node();
    cluster.end(sweep);
    assert_eq!(tables(path, "out"), expected);
    let segments = fs::read_dir(path.join("out/results")).unwrap().count();
    assert!(segments >= 6, "{segments} processes kept results");
    assert_eq!(good(path, "sweep c.toml --out out --missing"), "");
    // Jobs that end without their results, as by a time limit, are submitted again.
    let sweep = cluster.begin(path, "again");
    let cancel =
        Command::new("scancel").args(["--name", "weir-sweep"]).env("SLURM_CONF", cluster.configuration()).status();
    assert!(cancel.unwrap().success());
    let errors = cluster.end(sweep);
    assert!(errors.contains("unfinished, which are submitted again"), "{errors}");
    assert_eq!(tables(path, "again"), expected);
}
