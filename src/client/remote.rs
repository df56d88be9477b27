//! One server, asked directly: the simple forms of put and get.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::StreamExt as _;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{RequestBuilder, Response};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::settings::{BadSettings, ClientSettings, Token};
use crate::model::digest::{Digest, Hasher};
use crate::model::name::{AssetPath, Repository};
use crate::wire::artifact::RawPut;
use crate::wire::health::Ready;
use crate::wire::problem::Problem;

/// Everything but what a path segment may hold as it is.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest silence of a server before or in the middle of an answer, when it only has to read.
const SILENCE: Duration = Duration::from_mins(2);
/// Longest wait for the answer to a publication: as long as the server lets one take.
const PUBLICATION: Duration = Duration::from_mins(31);
/// Piece of a file that is read or hashed at once.
const PIECE: usize = 256 * 1024;

/// Why a request did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings are incomplete or wrong.
    #[error(transparent)]
    Settings(#[from] BadSettings),
    /// An address that is none.
    #[error("{0} is no address of a server, such as http://127.0.0.1:8080")]
    Address(String),
    /// The local file.
    #[error("{}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The connection.
    #[error("no answer, or one that broke off")]
    Transport(#[from] reqwest::Error),
    /// Nothing came for too long.
    #[error("the server said nothing for 2 minutes")]
    Silent,
    /// The server refused.
    #[error("{status} {code}: {message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Code of the error body.
        code: String,
        /// Its text.
        message: String,
    },
    /// The bytes are not those that the server announced.
    #[error("the bytes received are not those that the server announced; nothing was kept")]
    Corrupt,
}

/// A server of an installation, and who to be there.
#[derive(Clone, Debug)]
pub struct Remote {
    base: String,
    token: Token,
    http: reqwest::Client,
}

/// What a download brought.
#[derive(Clone, Debug)]
pub struct Downloaded {
    /// Bytes.
    pub size: u64,
    /// Digest of these bytes.
    pub digest: Digest,
    /// The slot of the process that sent them.
    pub slot: Option<String>,
}

impl Remote {
    /// The server and the key that the environment names.
    pub fn from_environment() -> Result<Self, Error> {
        let settings = ClientSettings::from_process()?;
        let server = settings.server()?;
        Self::new(
            &format!("http://{}:{}", server.host, server.port),
            settings.token()?.clone(),
        )
    }

    /// The server at `url`, with the key that the environment names.
    pub fn from_environment_at(url: &str) -> Result<Self, Error> {
        Self::new(url, ClientSettings::from_process()?.token()?.clone())
    }

    /// The server at `url`, such as `http://127.0.0.1:8080`.
    pub fn new(url: &str, token: Token) -> Result<Self, Error> {
        let parsed = reqwest::Url::parse(url).map_err(|_| Error::Address(url.to_owned()))?;
        if !matches!(parsed.scheme(), "http" | "https") || !parsed.has_host() {
            return Err(Error::Address(url.to_owned()));
        }
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()?;
        Ok(Self {
            base: url.trim_end_matches('/').to_owned(),
            token,
            http,
        })
    }

    /// Publishes `file` at a path; with `only_new`, fails if the path is there already. The file is read twice: its
    /// digest goes first, so that the server can check what it stores.
    pub async fn put(
        &self,
        file: &Path,
        repository: &Repository,
        path: &AssetPath,
        only_new: bool,
    ) -> Result<RawPut, Error> {
        let failed = |source| Error::File {
            path: file.to_owned(),
            source,
        };
        let mut source = tokio::fs::File::open(file).await.map_err(failed)?;
        let (size, digest) = measure(&mut source).await.map_err(failed)?;
        let source = tokio::fs::File::open(file).await.map_err(failed)?;
        let body = futures_util::stream::try_unfold(source, |mut source| async move {
            let mut piece = Vec::with_capacity(PIECE);
            let read = (&mut source).take(PIECE as u64).read_to_end(&mut piece).await?;
            Ok::<_, std::io::Error>((read > 0).then_some((piece, source)))
        });
        let mut request = self.publication(repository, path, size, digest);
        if only_new {
            request = request.header("If-None-Match", "*");
        }
        self.publish(request.body(reqwest::Body::wrap_stream(body))).await
    }

    /// Publishes bytes that lie in memory.
    pub async fn put_bytes(&self, bytes: Vec<u8>, repository: &Repository, path: &AssetPath) -> Result<RawPut, Error> {
        let request = self.publication(repository, path, bytes.len() as u64, Digest::of(&bytes));
        self.publish(request.body(bytes)).await
    }

    fn publication(&self, repository: &Repository, path: &AssetPath, size: u64, digest: Digest) -> RequestBuilder {
        self.http
            .put(self.url(repository, path))
            .header("Content-Length", size)
            .header("X-Checksum-Sha256", digest.to_string())
    }

    async fn publish(&self, request: RequestBuilder) -> Result<RawPut, Error> {
        let answer = self.send(request.timeout(PUBLICATION)).await?.bytes().await?;
        serde_json::from_slice(&answer).map_err(|_| Error::Corrupt)
    }

    /// Downloads the file at a path to `file`; with `range` (`first-last`) only these bytes. A whole file is checked
    /// against the digest in its entity tag before it gets its name.
    pub async fn get(
        &self,
        repository: &Repository,
        path: &AssetPath,
        range: Option<&str>,
        file: &Path,
    ) -> Result<Downloaded, Error> {
        let answer = self.ask(repository, path, range).await?;
        let promised = answer
            .headers()
            .get("etag")
            .and_then(|tag| tag.to_str().ok())
            .and_then(|tag| tag.strip_prefix("\"sha256:")?.strip_suffix('"')?.parse::<Digest>().ok());
        let whole = answer.status() == reqwest::StatusCode::OK;
        let part = PathBuf::from(format!("{}.part", file.display()));
        let failed = |source| Error::File {
            path: part.clone(),
            source,
        };
        let mut target = tokio::fs::File::create(&part).await.map_err(failed)?;
        let got = receive(answer, async |piece| target.write_all(piece).await.map_err(failed)).await;
        let kept = match got {
            Ok(got) if whole && promised.is_some_and(|promised| promised != got.digest) => Err(Error::Corrupt),
            Ok(got) => {
                target.sync_all().await.map_err(failed)?;
                tokio::fs::rename(&part, file).await.map_err(failed)?;
                Ok(got)
            }
            Err(error) => Err(error),
        };
        if kept.is_err() {
            let _ = tokio::fs::remove_file(&part).await;
        }
        kept
    }

    /// Reads bytes of the file at a path and keeps only their digest.
    pub async fn digest(&self, repository: &Repository, path: &AssetPath, range: &str) -> Result<Downloaded, Error> {
        let answer = self.ask(repository, path, Some(range)).await?;
        receive(answer, async |_| Ok(())).await
    }

    /// The process's readiness.
    pub async fn ready(&self) -> Result<Ready, Error> {
        let request = self.http.get(format!("{}/health/ready", self.base)).timeout(SILENCE);
        let answer = self.send(request).await?.bytes().await?;
        serde_json::from_slice(&answer).map_err(|_| Error::Corrupt)
    }

    async fn ask(&self, repository: &Repository, path: &AssetPath, range: Option<&str>) -> Result<Response, Error> {
        let mut request = self.http.get(self.url(repository, path));
        if let Some(range) = range {
            request = request.header("Range", format!("bytes={range}"));
        }
        quiet_no_longer(self.send(request)).await?
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        let answer = request.bearer_auth(self.token.expose()).send().await?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let problem: Option<Problem> = serde_json::from_slice(&answer.bytes().await.unwrap_or_default()).ok();
        Err(Error::Refused {
            status: status.as_u16(),
            code: problem
                .as_ref()
                .map_or_else(|| "unknown".to_owned(), |problem| problem.code.clone()),
            message: problem.map_or_else(|| "not an answer of this product".to_owned(), |problem| problem.message),
        })
    }

    fn url(&self, repository: &Repository, path: &AssetPath) -> String {
        let mut url = format!("{}/api/v1/repositories/{repository}/raw", self.base);
        for segment in path.as_str().split('/') {
            url.push('/');
            url.extend(utf8_percent_encode(segment, SEGMENT));
        }
        url
    }
}

/// Ends a wait for a server that says nothing.
async fn quiet_no_longer<T>(wait: impl Future<Output = T>) -> Result<T, Error> {
    tokio::time::timeout(SILENCE, wait).await.map_err(|_| Error::Silent)
}

async fn measure(file: &mut tokio::fs::File) -> std::io::Result<(u64, Digest)> {
    let (mut size, mut hasher) = (0, Hasher::default());
    let mut piece = vec![0; PIECE];
    loop {
        let read = file.read(&mut piece).await?;
        if read == 0 {
            return Ok((size, hasher.finish()));
        }
        size += read as u64;
        hasher.update(&piece[..read]);
    }
}

async fn receive(answer: Response, mut keep: impl AsyncFnMut(&[u8]) -> Result<(), Error>) -> Result<Downloaded, Error> {
    let slot = answer
        .headers()
        .get("x-arkvory-slot")
        .and_then(|slot| slot.to_str().ok())
        .map(str::to_owned);
    let (mut size, mut hasher) = (0, Hasher::default());
    let mut body = answer.bytes_stream();
    while let Some(piece) = quiet_no_longer(body.next()).await? {
        let piece = piece?;
        size += piece.len() as u64;
        hasher.update(&piece);
        keep(&piece).await?;
    }
    Ok(Downloaded {
        size,
        digest: hasher.finish(),
        slot,
    })
}
