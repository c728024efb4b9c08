//! `agentctl dev`: everything on one machine, and nothing of it afterwards, however it ends.

use std::cell::RefCell;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use baton_core::clock::Clock;
use baton_devdb::Cluster;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Http, agents_folder, audit, eventually, policies_folder, pool, within};

/// A second start: the cluster is there, and nothing is to be migrated.
const SECOND_START: Duration = Duration::from_secs(2);

/// After `kill -9`, until the last process has ended.
const GONE: Duration = Duration::from_secs(1);

/// `dev` starts a child again a second after it died; the rest is for two busy cores.
const RESTARTED: Duration = Duration::from_secs(4);

#[tokio::test]
async fn dev_leaves_nothing_behind() {
    let folder = Folder::create();
    let mut dev = folder.start(&[]).await;
    works(&dev.ready).await;
    let pids = folder.pids(&dev);
    assert!(pids.iter().all(|pid| is_alive(*pid)), "{pids:?}");

    // A clean end.
    dev.interrupt().await;
    assert_eq!(folder.left_of(&pids), Vec::<u32>::new());
    assert!(!folder.data.join("dev.json").exists(), "other commands would look for it");
    folder.assert_unlocked();

    // What is there already starts faster, and serves as before.
    let clock = Clock::system();
    let mut dev = folder.start(&[]).await;
    let second_start = clock.elapsed();
    println!("second start in {second_start:?}");
    assert!(second_start < SECOND_START, "{second_start:?}");
    works(&dev.ready).await;
    let pids = folder.pids(&dev);

    // No end could be less clean.
    dev.signal(Signal::SIGKILL);
    let killed = clock.elapsed();
    dev.ended().await;
    within(GONE, "no process is left", || async { folder.left_of(&pids).is_empty().then_some(()) }).await;
    println!("after kill -9 the last process ended in {:?}", clock.elapsed() - killed);
    folder.assert_unlocked();

    let mut dev = folder.start(&[]).await;
    works(&dev.ready).await;
    // Again, without waiting for the Postgres that is still on its way out.
    dev.signal(Signal::SIGKILL);
    dev.ended().await;
    let mut dev = folder.start(&[]).await;
    works(&dev.ready).await;
    dev.interrupt().await;
    folder.remove();
}

#[tokio::test]
async fn a_data_folder_has_one_dev() {
    let folder = Folder::create();
    let mut dev = folder.start(&[]).await;
    let second = folder.command(&[]).output().unwrap();
    assert_refused(&second, dev.ready["url"].as_str().unwrap());
    works(&dev.ready).await; // the first does not mind
    dev.interrupt().await;
    folder.remove();
}

fn assert_refused(second: &Output, url: &str) {
    let said = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(5), "{said}");
    assert!(said.contains("runs already") && said.contains(url) && said.contains("--data-dir"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[tokio::test]
async fn settings_that_are_refused_are_said_once_and_end_with_the_code_of_settings() {
    let folder = Folder::create();
    let wrong = folder.dir.path().join("wrong");
    fs::create_dir(&wrong).unwrap();
    fs::write(wrong.join("mine.toml"), "id = \"mine\"\nnonsense = 1\n").unwrap();
    let wrong = wrong.to_str().unwrap();
    let agents = folder.command(&["--agents", wrong]);
    let mut policies = folder.command(&[]);
    policies.env("BATON_POLICY__FOLDER", wrong);
    for mut command in [agents, policies] {
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.matches("do not load").count()), (Some(2), 1), "{said}");
    }
    folder.remove();
}

#[tokio::test]
async fn an_address_of_the_configuration_is_listened_on_and_a_flag_comes_first() {
    let folder = Folder::create();
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (of_the_file, of_the_variable, of_the_flag) = (free(), free(), free());
    let config = folder.dir.path().join("baton.toml");
    fs::write(&config, format!("[server]\nlisten = \"{of_the_file}\"\n")).unwrap();
    let config = ["--config", config.to_str().unwrap()];
    for (variable, flag, expected) in [
        (None, None, of_the_file),
        (Some(of_the_variable), None, of_the_variable),
        (Some(of_the_variable), Some(of_the_flag), of_the_flag),
    ] {
        let mut command = folder.command_listening(flag.as_ref().map(ToString::to_string).as_deref(), &config);
        command.envs(variable.map(|address| ("BATON_SERVER__LISTEN", address.to_string())));
        let mut dev = folder.start_as(command).await;
        assert_eq!(dev.ready["url"], format!("http://{expected}"));
        dev.interrupt().await;
    }
    folder.remove();
}

/// It stands where there is a folder `agents`, which is not the one that the settings name.
#[tokio::test]
async fn agents_of_the_settings_count_before_those_of_the_place() {
    let folder = Folder::create();
    let place = folder.dir.path().join("agents");
    fs::create_dir(&place).unwrap();
    fs::write(place.join("other.toml"), "nonsense = 1\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentctl"));
    command.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&folder.data).arg("--ready-file").arg(folder.ready_file());
    command.current_dir(folder.dir.path()).env_remove("DATABASE_URL").env("RUST_LOG", "error");
    command.env("BATON_AGENTS__FOLDER", agents_folder()).env("BATON_POLICY__FOLDER", policies_folder());
    let mut dev = folder.start_as(command).await;
    works(&dev.ready).await;
    dev.interrupt().await;
    folder.remove();
}

#[tokio::test]
async fn with_tokens_the_banner_says_how_to_get_one() {
    let folder = Folder::create();
    let secret = folder.dir.path().join("secret");
    fs::write(&secret, "0123456789abcdef0123456789abcdef").unwrap();
    let config = folder.dir.path().join("baton.toml");
    let text = format!(
        "[auth]\nmode = \"jwt\"\nissuer = \"i\"\naudience = \"a\"\n[[auth.keys]]\nkid = \"mine\"\nalgorithm = \"HS256\"\nsecret_file = {secret:?}\n"
    );
    fs::write(&config, text).unwrap();
    let mut dev = folder.start(&["--config", config.to_str().unwrap()]).await;
    let banner = folder.printed();
    let commands: Vec<&str> = banner.lines().filter(|line| line.starts_with("  ")).collect();
    assert!(commands[0].contains("token mint") && commands[0].contains("--kid mine"), "{banner}");
    // Both of the first two, as they stand there; the agents of the tests are others.
    let pasted = format!("{}\n{}", commands[0], commands[1].replace("run \"Calculate 12 times 9\"", "run --agent test noop"));
    let output = Command::new("sh").args(["-c", &pasted]).env_remove("DATABASE_URL").stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success() && output.stdout == b"done\n", "{output:?}");
    dev.interrupt().await;
    folder.remove();
}

#[tokio::test]
async fn dev_starts_again_what_dies() {
    let folder = Folder::create();
    let mut dev = folder.start(&[]).await;
    let clock = Clock::system();

    let worker = worker_pid(&dev.ready);
    terminate(worker);
    let killed = clock.elapsed();
    let ready = folder.changed(&dev.ready).await;
    println!("a killed worker was started again after {:?}", clock.elapsed() - killed);
    assert_ne!(worker_pid(&ready), worker);
    assert_eq!((&ready["url"], api_pid(&ready)), (&dev.ready["url"], api_pid(&dev.ready)));
    works(&ready).await;

    // The API comes back where its clients look for it.
    terminate(api_pid(&ready));
    let again = folder.changed(&ready).await;
    assert_ne!(api_pid(&again), api_pid(&ready));
    assert_eq!((&again["url"], worker_pid(&again)), (&ready["url"], worker_pid(&ready)));
    works(&again).await;

    // Postgres, too; the others get over it.
    let postgres = folder.postgres_pid().unwrap();
    terminate(postgres);
    eventually("another Postgres runs", || async { folder.postgres_pid().filter(|pid| *pid != postgres) }).await;
    let http = http_of(&again);
    eventually("the API is ready again", || async { http.get("/health/ready").await.0.is_success().then_some(()) }).await;
    works(&again).await;

    let pids = folder.pids(&dev);
    dev.interrupt().await;
    assert_eq!(folder.left_of(&pids), Vec::<u32>::new());
    folder.remove();
}

#[tokio::test]
async fn dev_leaves_dead_what_it_is_told_to() {
    /// Longer than a restart would take.
    const STAYS_DEAD: Duration = Duration::from_millis(2_500);

    let folder = Folder::create();
    let mut dev = folder.start(&["--no-restart"]).await;
    terminate(worker_pid(&dev.ready));
    eventually("dev has noticed", || async { folder.said().contains("the worker-0 ended").then_some(()) }).await;
    let revived = tokio::time::timeout(STAYS_DEAD, folder.changed(&dev.ready)).await;
    assert!(revived.is_err(), "{revived:?}");
    assert!(!folder.said().contains("started again"), "{}", folder.said());
    // The rest goes on: a run is stored, and waits.
    let http = http_of(&dev.ready);
    let run_id = http.start_run("noop").await;
    assert_eq!(http.run(run_id).await["status"], "QUEUED");
    dev.interrupt().await;
    folder.remove();
}

/// Where a test's `dev` keeps everything. Its parents are open, as Postgres may be another user.
struct Folder {
    dir: TempDir,
    data: PathBuf,
}

impl Folder {
    fn create() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let data = dir.path().join("data");
        Self { dir, data }
    }

    fn ready_file(&self) -> PathBuf {
        self.dir.path().join("ready.json")
    }

    /// What the last `dev` wrote to stderr, its children included.
    fn said(&self) -> String {
        fs::read_to_string(self.dir.path().join("stderr")).unwrap()
    }

    /// What the last `dev` wrote to stdout.
    fn printed(&self) -> String {
        fs::read_to_string(self.dir.path().join("stdout")).unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.command_listening(Some("127.0.0.1:0"), arguments)
    }

    fn command_listening(&self, listen: Option<&str>, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentctl"));
        command.arg("dev").args(listen.map(|address| ["--listen", address]).into_iter().flatten());
        command.arg("--data-dir").arg(&self.data).arg("--ready-file").arg(self.ready_file());
        if !arguments.contains(&"--agents") {
            command.arg("--agents").arg(agents_folder());
        }
        command.args(arguments);
        command.env_remove("DATABASE_URL").env("RUST_LOG", "error");
        command.env("BATON_POLICY__FOLDER", policies_folder()); // which the agents of the tests name
        command
    }

    async fn start(&self, arguments: &[&str]) -> Dev {
        self.start_as(self.command(arguments)).await
    }

    /// Returns once everything answers. To be called on the test's own thread: the death signal belongs to it.
    async fn start_as(&self, mut command: Command) -> Dev {
        let _ = fs::remove_file(self.ready_file()); // of an earlier one, perhaps
        let file = |name: &str| File::create(self.dir.path().join(name)).unwrap();
        command.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr"));
        let child = RefCell::new(baton_devdb::child::spawn(command, Signal::SIGKILL, None).unwrap());
        let ready = eventually("dev is ready", || async {
            let ended = child.borrow_mut().try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", self.said());
            read(&self.ready_file())
        })
        .await;
        Dev { child: child.into_inner(), ready }
    }

    /// The ready file, once it says something else; the file that other commands read says the same.
    async fn changed(&self, before: &Value) -> Value {
        let ready = within(RESTARTED, "the ready file says what was started", || async {
            read(&self.ready_file()).filter(|ready| ready != before)
        })
        .await;
        assert_eq!(read(&self.data.join("dev.json")), Some(ready.clone()));
        ready
    }

    /// The cluster's own folder.
    fn cluster(&self) -> PathBuf {
        let pointer = fs::read_to_string(self.data.join("pg/cluster.path"));
        pointer.map_or_else(|_| self.data.join("pg/cluster"), |path| path.trim_end().into()).join("data")
    }

    fn postgres_pid(&self) -> Option<u32> {
        fs::read_to_string(self.cluster().join("postmaster.pid")).ok()?.lines().next()?.parse().ok()
    }

    /// Everything that runs: `dev`, its children, and Postgres with its own.
    fn pids(&self, dev: &Dev) -> Vec<u32> {
        let ready = read(&self.ready_file()).unwrap();
        let mut pids = vec![dev.child.id(), api_pid(&ready), worker_pid(&ready), self.postgres_pid().unwrap()];
        pids.extend(self.postgres_processes());
        pids
    }

    fn postgres_processes(&self) -> Vec<u32> {
        let Ok(cluster) = self.cluster().canonicalize() else { return Vec::new() };
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter(|process| fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == cluster))
            .filter_map(|process| process.file_name().to_str()?.parse().ok())
            .collect()
    }

    /// Which of these still run, and whatever else works in the data folder.
    fn left_of(&self, pids: &[u32]) -> Vec<u32> {
        pids.iter().copied().chain(self.postgres_processes()).filter(|pid| is_alive(*pid)).collect()
    }

    fn assert_unlocked(&self) {
        for lock in ["dev.lock", "pg/lock"] {
            let file = File::options().write(true).open(self.data.join(lock)).unwrap();
            assert!(Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok(), "{lock} is held");
        }
    }

    fn remove(self) {
        Cluster::remove(&self.data.join("pg")).unwrap(); // it may live elsewhere
        self.dir.close().unwrap();
    }
}

/// A running `dev`; it dies with the test.
struct Dev {
    child: Child,
    ready: Value,
}

impl Dev {
    fn signal(&self, signal: Signal) {
        kill(pid_of(self.child.id()), signal).unwrap();
    }

    /// The audit, and Ctrl-C.
    async fn interrupt(&mut self) {
        let pool = pool(self.ready["database_url"].as_str().unwrap(), 1);
        audit(&pool).await;
        pool.close().await;
        self.signal(Signal::SIGINT);
        assert_eq!(self.ended().await.code(), Some(0));
    }

    async fn ended(&mut self) -> ExitStatus {
        let child = RefCell::new(&mut self.child);
        eventually("dev has ended", || async { child.borrow_mut().try_wait().unwrap() }).await
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill(); // fails where it has ended
        let _ = self.child.wait();
    }
}

/// A message is answered.
async fn works(ready: &Value) {
    let http = http_of(ready);
    let run_id = http.start_run("noop").await;
    http.run_in(run_id, "COMPLETED").await;
}

fn http_of(ready: &Value) -> Http {
    Http::new(ready["url"].as_str().unwrap().to_owned())
}

fn api_pid(ready: &Value) -> u32 {
    u32::try_from(ready["pids"]["api"].as_u64().unwrap()).unwrap()
}

fn worker_pid(ready: &Value) -> u32 {
    u32::try_from(ready["pids"]["workers"][0].as_u64().unwrap()).unwrap()
}

/// `kill -9`.
fn terminate(pid: u32) {
    kill(pid_of(pid), Signal::SIGKILL).unwrap();
}

fn pid_of(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap())
}

/// Whether the process runs; one that has ended and was not waited for does not.
fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn read(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
