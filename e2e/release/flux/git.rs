//! A Git repository, and a server that provides it over smart HTTP, the only protocol that Flux supports
//! here. The protocol is git's own (`git http-backend`); the server only runs it, as CGI.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The branch that is applied.
pub(super) const BRANCH: &str = "main";
/// The most that a client may send; it asks for commits by their names.
const MOST: usize = 1 << 20;

/// `git` that knows nothing of the person who runs the tests.
fn git() -> Command {
    let mut command = Command::new("git");
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "Ada").env(format!("GIT_{role}_EMAIL"), "ada@example.com");
    }
    command
}

/// A repository that is pushed to, and one beside it in which people work.
pub(super) struct Repository {
    home: TempDir,
    server: JoinHandle<()>,
    /// Where Flux finds it.
    pub(super) url: String,
}

impl Drop for Repository {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Repository {
    /// An empty one, which is served.
    ///
    /// # Errors
    /// When git is not there, or no port is free.
    pub(super) async fn serve() -> anyhow::Result<Self> {
        let home = TempDir::new()?;
        let run = |command: &mut Command| said(command.output()?);
        let branch = format!("--initial-branch={BRANCH}");
        run(git().args(["init", "--quiet", "--bare", &branch]).arg(home.path().join("policies.git")))?;
        run(git().args(["init", "--quiet", &branch]).arg(home.path().join("work")))?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/policies.git", listener.local_addr()?);
        let app = Router::new().fallback(answer).with_state(Arc::new(home.path().to_owned()));
        let server = tokio::spawn(async move {
            // It ends when it is aborted.
            let _ = axum::serve(listener, app).await;
        });
        Ok(Self { home, server, url })
    }

    /// The folder in which people work.
    pub(super) fn work(&self) -> PathBuf {
        self.home.path().join("work")
    }

    fn git(&self, args: &[&str]) -> anyhow::Result<String> {
        said(git().arg("-C").arg(self.work()).args(args).output()?)
            .with_context(|| format!("git {}", args.join(" ")))
    }

    /// Copies a folder into the working one.
    pub(super) fn copy(&self, from: &Path, to: &str) -> anyhow::Result<()> {
        let to = self.work().join(to);
        std::fs::create_dir_all(&to)?;
        let status = Command::new("cp").arg("-R").arg(from.join(".")).arg(&to).status()?;
        ensure!(status.success(), "cannot copy {}", from.display());
        Ok(())
    }

    /// Writes a file.
    pub(super) fn write(&self, path: &str, text: &str) -> anyhow::Result<()> {
        let path = self.work().join(path);
        std::fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
        Ok(std::fs::write(path, text)?)
    }

    /// Replaces a part of a file, which has to be there.
    pub(super) fn edit(&self, path: &str, from: &str, to: &str) -> anyhow::Result<()> {
        let text = std::fs::read_to_string(self.work().join(path))?;
        ensure!(text.contains(from), "{path} does not say {from:?}");
        self.write(path, &text.replacen(from, to, 1))
    }

    /// Commits what was changed, and pushes it. Says how Flux names it.
    pub(super) fn commit(&self, message: &str) -> anyhow::Result<String> {
        self.git(&["add", "--all"])?;
        self.git(&["commit", "--quiet", "--message", message])?;
        self.push()
    }

    /// Takes the last commit back by another one.
    pub(super) fn revert(&self) -> anyhow::Result<String> {
        self.git(&["revert", "--no-edit", "HEAD"])?;
        self.push()
    }

    fn push(&self) -> anyhow::Result<String> {
        self.git(&["push", "--quiet", "../policies.git", &format!("HEAD:{BRANCH}")])?;
        Ok(format!("{BRANCH}@sha1:{}", self.git(&["rev-parse", "HEAD"])?.trim()))
    }
}

fn said(output: Output) -> anyhow::Result<String> {
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

async fn answer(State(home): State<Arc<PathBuf>>, request: Request) -> Response<Body> {
    match backend(&home, request).await {
        Ok(response) => response,
        Err(error) => {
            let mut response = Response::new(Body::from(format!("{error:#}")));
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response
        }
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// One request, as `git http-backend` answers it.
async fn backend(home: &Path, request: Request) -> anyhow::Result<Response<Body>> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, MOST).await?;
    let mut command = tokio::process::Command::from(git());
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", home)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", parts.method.as_str())
        .env("PATH_INFO", parts.uri.path())
        .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
        .env("CONTENT_TYPE", header(&parts.headers, "content-type"))
        .env("HTTP_CONTENT_ENCODING", header(&parts.headers, "content-encoding"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("GIT_PROTOCOL", header(&parts.headers, "git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot run git http-backend")?;
    let mut stdin = child.stdin.take().context("its standard input is a pipe")?;
    let writing = async move {
        // One that does not read all of it has answered before.
        let _ = stdin.write_all(&body).await;
    };
    let ((), output) = tokio::join!(writing, child.wait_with_output());
    let output = output?.stdout;
    let end = output.windows(4).position(|bytes| bytes == b"\r\n\r\n").context("an answer has a head")?;
    let mut response = Response::builder();
    for line in std::str::from_utf8(&output[..end])?.lines() {
        match line.split_once(": ") {
            Some(("Status", status)) => {
                response = response.status(status.split(' ').next().unwrap_or_default().parse::<u16>()?);
            }
            Some((name, value)) => response = response.header(name, value),
            None => bail!("a line of the head is no header: {line:?}"),
        }
    }
    Ok(response.body(Body::from(output[end + 4..].to_vec()))?)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_pushed_can_be_cloned() {
    let cloned = async {
        let repository = Repository::serve().await?;
        repository.write("folder/file.yaml", "one: 1\n")?;
        repository.commit("one")?;
        repository.edit("folder/file.yaml", "1", "2")?;
        let two = repository.commit("two")?;
        let back = repository.revert()?;
        ensure!(two != back, "a revert is a commit of its own");
        let into = repository.home.path().join("clone");
        let url = repository.url.clone();
        let output = tokio::process::Command::from(git()).args(["clone", &url]).arg(&into).output().await?;
        said(output)?;
        anyhow::Ok(std::fs::read_to_string(into.join("folder/file.yaml"))?)
    };
    assert_eq!(cloned.await.unwrap_or_else(|error| panic!("{error:#}")), "one: 1\n");
}
