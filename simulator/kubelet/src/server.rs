//! The socket, and the checkpoint beside it.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use http::{Request, Response};
use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::Server;
use tonic_prost::ProstCodec;
use tower::Service;

use crate::books::Books;
use crate::checkpoint;
use crate::messages::{AllocatableAnswer, ListAnswer, Question};

/// How often each call was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// `List`.
    pub list: usize,
    /// `GetAllocatableResources`.
    pub allocatable: usize,
}

/// Why the stand-in does not run.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    /// A file or a socket cannot be made.
    #[error("{} cannot be made", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

#[derive(Debug, Default)]
struct State {
    books: Books,
    calls: Calls,
    /// The answer to every call instead of the truth.
    refusal: Option<String>,
}

/// A running stand-in. It ends when it is dropped.
#[derive(Debug)]
pub struct Kubelet {
    folder: PathBuf,
    state: Arc<Mutex<State>>,
    server: JoinHandle<()>,
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Kubelet {
    /// Starts it below a folder, with `pod-resources/kubelet.sock` and
    /// `device-plugins/kubelet_internal_checkpoint`, as below kubelet's own.
    /// Must be called in a runtime.
    ///
    /// # Errors
    /// Socket or checkpoint cannot be made.
    pub fn start(folder: &Path, books: Books) -> Result<Self, KubeletError> {
        let state = Arc::new(Mutex::new(State { books, ..State::default() }));
        let (sockets, plugins) = (folder.join("pod-resources"), folder.join("device-plugins"));
        for path in [&sockets, &plugins] {
            std::fs::create_dir_all(path)
                .map_err(|source| KubeletError::File { path: path.clone(), source })?;
        }
        let socket = sockets.join("kubelet.sock");
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket)
            .map_err(|source| KubeletError::File { path: socket.clone(), source })?;
        let lister = Lister(Arc::clone(&state));
        let server = tokio::spawn(async move {
            let serving = Server::builder().add_service(lister);
            // Ends with the stand-in; a client that goes away ends nothing.
            let _ = serving.serve_with_incoming(UnixListenerStream::new(listener)).await;
        });
        let kubelet = Self { folder: folder.to_owned(), state, server };
        kubelet.save()?;
        Ok(kubelet)
    }

    /// Its pod-resources socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.join("pod-resources/kubelet.sock")
    }

    /// Its checkpoint.
    #[must_use]
    pub fn checkpoint(&self) -> PathBuf {
        self.folder.join("device-plugins/kubelet_internal_checkpoint")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes its books, and writes the checkpoint as kubelet does after an
    /// allocation and after each change of devices.
    ///
    /// # Errors
    /// The checkpoint cannot be written.
    pub fn update(&self, change: impl FnOnce(&mut Books)) -> Result<(), KubeletError> {
        change(&mut self.state().books);
        self.save()
    }

    /// Changes its books and leaves the checkpoint as it is, as kubelet does
    /// when a pod ends or a plugin's stream breaks off.
    pub fn update_in_memory(&self, change: impl FnOnce(&mut Books)) {
        change(&mut self.state().books);
    }

    /// Its books.
    #[must_use]
    pub fn books(&self) -> Books {
        self.state().books.clone()
    }

    /// Answers every call with this error, until told otherwise.
    pub fn refuse(&self, why: Option<&str>) {
        self.state().refusal = why.map(str::to_owned);
    }

    /// How often it was asked.
    #[must_use]
    pub fn calls(&self) -> Calls {
        self.state().calls
    }

    fn save(&self) -> Result<(), KubeletError> {
        let text = checkpoint::render(&self.state().books);
        let path = self.checkpoint();
        checkpoint::write(&path, &text).map_err(|source| KubeletError::File { path, source })
    }
}

/// The service `v1.PodResourcesLister`.
#[derive(Clone)]
struct Lister(Arc<Mutex<State>>);

impl NamedService for Lister {
    const NAME: &'static str = "v1.PodResourcesLister";
}

type Answering<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Service<Request<Body>> for Lister {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let state = Arc::clone(&self.0);
        Box::pin(async move {
            Ok(match request.uri().path() {
                "/v1.PodResourcesLister/List" => {
                    let codec = ProstCodec::<ListAnswer, Question>::default();
                    Grpc::new(codec).unary(List(state), request).await
                }
                "/v1.PodResourcesLister/GetAllocatableResources" => {
                    let codec = ProstCodec::<AllocatableAnswer, Question>::default();
                    Grpc::new(codec).unary(Allocatable(state), request).await
                }
                _ => tonic::Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

/// Counts a call and answers it.
fn answer<T>(
    state: &Mutex<State>,
    count: impl FnOnce(&mut Calls) -> &mut usize,
    read: impl FnOnce(&Books, Calls) -> T,
) -> Result<tonic::Response<T>, tonic::Status> {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    *count(&mut state.calls) += 1;
    match &state.refusal {
        Some(why) => Err(tonic::Status::resource_exhausted(why.clone())),
        None => Ok(tonic::Response::new(read(&state.books, state.calls))),
    }
}

struct List(Arc<Mutex<State>>);

impl UnaryService<Question> for List {
    type Response = ListAnswer;
    type Future = Answering<Result<tonic::Response<ListAnswer>, tonic::Status>>;

    fn call(&mut self, _: tonic::Request<Question>) -> Self::Future {
        let answer =
            answer(&self.0, |calls| &mut calls.list, |books, _| ListAnswer { pod_resources: books.listed() });
        Box::pin(std::future::ready(answer))
    }
}

struct Allocatable(Arc<Mutex<State>>);

impl UnaryService<Question> for Allocatable {
    type Response = AllocatableAnswer;
    type Future = Answering<Result<tonic::Response<AllocatableAnswer>, tonic::Status>>;

    fn call(&mut self, _: tonic::Request<Question>) -> Self::Future {
        let answer = answer(
            &self.0,
            |calls| &mut calls.allocatable,
            |books, calls| AllocatableAnswer {
                devices: books.allocatable(calls.allocatable),
                cpu_ids: vec![0, 1],
            },
        );
        Box::pin(std::future::ready(answer))
    }
}
