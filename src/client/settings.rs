//! What the command line reads from the environment (docs/spec/environment.md 4.9). Parsed by hand: this is all that the
//! program without its server half needs.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// The port when `ARKVORY_SERVER` names none.
pub const DEFAULT_PORT: u16 = 8080;

/// The largest file that holds a token, in bytes.
const LARGEST_TOKEN: usize = 16 * 1024;

/// The address of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Name or address; an IPv6 address stands in brackets.
    pub host: String,
    /// 1 to 65535; default 8080.
    pub port: u16,
}

/// A secret key. It is never shown: neither `Debug` nor any message has its text.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Where to go and who to be there. Both may come from the command line instead, so neither is required here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientSettings {
    /// `ARKVORY_SERVER`: `host[:port]`.
    pub server: Option<Server>,
    /// `ARKVORY_TOKEN`, or the content of the file that `ARKVORY_TOKEN_FILE` names.
    pub token: Option<Token>,
}

/// Every mistake in the settings, one per line. Texts name the variables and never show their values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct BadSettings(Vec<String>);

impl ClientSettings {
    /// The settings of this process.
    pub fn from_process() -> Result<Self, BadSettings> {
        Self::from_vars(std::env::vars_os())
    }

    /// The settings in `vars`; variables of servers are ignored. Fails with every mistake.
    pub fn from_vars(vars: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Self, BadSettings> {
        let (mut server, mut token, mut token_file) = (None, None, None);
        let mut mistakes = Vec::new();
        for (name, value) in vars {
            let Some(name) = name.to_str().filter(|name| name.starts_with("ARKVORY_")) else {
                continue;
            };
            let place = match name {
                "ARKVORY_SERVER" => &mut server,
                "ARKVORY_TOKEN" => &mut token,
                "ARKVORY_TOKEN_FILE" => {
                    token_file = Some(PathBuf::from(value));
                    continue;
                }
                _ => {
                    if name.starts_with("ARKVORY_CLIENT_") {
                        let name: String = name.chars().take(80).flat_map(char::escape_debug).collect();
                        mistakes.push(format!("Invalid {name}: not supported by this version"));
                    }
                    continue;
                }
            };
            match value.into_string() {
                Ok(text) => *place = Some(text),
                Err(_) => mistakes.push(format!("Invalid {name}: text in UTF-8")),
            }
        }
        let server = server.and_then(|text| {
            let server = Server::parse(&text);
            if server.is_none() {
                mistakes.push("Invalid ARKVORY_SERVER: host or host:port".to_owned());
            }
            server
        });
        let token = match (token, token_file) {
            (Some(_), Some(_)) => Err("Set only one of ARKVORY_TOKEN and ARKVORY_TOKEN_FILE"),
            (Some(text), None) => Token::parse(&text)
                .map(Some)
                .ok_or("Invalid ARKVORY_TOKEN: visible ASCII characters"),
            (None, Some(path)) => std::fs::read(path)
                .map_err(|_| "Invalid ARKVORY_TOKEN_FILE: the path of a readable file")
                .and_then(|content| {
                    let text = std::str::from_utf8(&content).ok();
                    text.and_then(|text| Token::parse(text.strip_suffix('\n').unwrap_or(text)))
                        .map(Some)
                        .ok_or("Invalid ARKVORY_TOKEN_FILE: a file with one line of visible ASCII characters")
                }),
            (None, None) => Ok(None),
        };
        match token {
            Ok(token) if mistakes.is_empty() => Ok(Self { server, token }),
            Ok(_) => Err(BadSettings(mistakes)),
            Err(mistake) => {
                mistakes.push(mistake.to_owned());
                Err(BadSettings(mistakes))
            }
        }
    }

    /// The server, which must be set.
    pub fn server(&self) -> Result<&Server, BadSettings> {
        self.server
            .as_ref()
            .ok_or_else(|| BadSettings(vec!["Missing ARKVORY_SERVER".to_owned()]))
    }

    /// The token, which must be set.
    pub fn token(&self) -> Result<&Token, BadSettings> {
        self.token
            .as_ref()
            .ok_or_else(|| BadSettings(vec!["Missing ARKVORY_TOKEN (or ARKVORY_TOKEN_FILE)".to_owned()]))
    }
}

impl Server {
    /// `host[:port]`; `None` for anything else, such as a URL.
    pub fn parse(text: &str) -> Option<Self> {
        let authority: http::uri::Authority = text.parse().ok()?;
        let host = authority.host();
        let port = match text.strip_prefix(host)? {
            "" => DEFAULT_PORT,
            rest => {
                let digits = rest.strip_prefix(':')?;
                let port = digits.parse().ok().filter(|port: &u16| port.to_string() == digits)?;
                (port > 0).then_some(port)?
            }
        };
        (!host.is_empty()).then(|| Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Token {
    /// Any text that can stand behind `Bearer ` in a header.
    pub fn parse(text: &str) -> Option<Self> {
        let visible = !text.is_empty() && text.bytes().all(|c| c.is_ascii_graphic());
        (visible && text.len() <= LARGEST_TOKEN).then(|| Self(text.to_owned()))
    }

    /// The secret itself, for the header.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token([redacted])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(vars: &[(&str, &str)]) -> Result<ClientSettings, BadSettings> {
        ClientSettings::from_vars(vars.iter().map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn servers() {
        for (text, shown) in [
            ("haproxy", "haproxy:8080"),
            ("haproxy:81", "haproxy:81"),
            ("10.0.0.1:65535", "10.0.0.1:65535"),
            ("[::1]", "[::1]:8080"),
            ("[::1]:81", "[::1]:81"),
        ] {
            assert_eq!(Server::parse(text).unwrap().to_string(), shown);
        }
        for bad in [
            "", ":81", "a:", "a:0", "a:081", "a:65536", "a:+1", "http://a", "a/b", "u@a", "u:p@a:81", "a b", "::1",
        ] {
            assert_eq!(Server::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn tokens() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let file = [("ARKVORY_TOKEN_FILE", path.to_str().unwrap())];
        assert!(load(&file).is_err());
        for (content, good) in [
            ("abc\n", true),
            ("abc", true),
            ("", false),
            ("a b", false),
            ("a\n\n", false),
        ] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(
                load(&file).is_ok_and(|found| found.token.unwrap().expose() == "abc"),
                good,
                "{content:?}"
            );
        }
        assert_eq!(
            load(&[("ARKVORY_TOKEN", "abc")]).unwrap().token().unwrap().expose(),
            "abc"
        );
        assert!(!format!("{:?}", load(&[("ARKVORY_TOKEN", "abc")])).contains("abc"));
    }

    #[test]
    fn nothing_set() {
        let found = load(&[("ARKVORY_ROLE", "api"), ("HOME", "/")]).unwrap();
        assert_eq!(found.server().unwrap_err().to_string(), "Missing ARKVORY_SERVER");
        assert_eq!(
            found.token().unwrap_err().to_string(),
            "Missing ARKVORY_TOKEN (or ARKVORY_TOKEN_FILE)"
        );
    }

    #[test]
    fn all_mistakes_and_no_values() {
        let text = load(&[
            ("ARKVORY_SERVER", "http://CANARY"),
            ("ARKVORY_TOKEN", "CANARY"),
            ("ARKVORY_TOKEN_FILE", "CANARY"),
            ("ARKVORY_CLIENT_X", "CANARY"),
        ])
        .unwrap_err()
        .to_string();
        assert_eq!(text.lines().count(), 3);
        assert!(!text.contains("CANARY"));
    }
}
