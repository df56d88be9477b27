use super::say;
use crate::client::settings::ClientSettings;

pub(super) fn run() -> anyhow::Result<()> {
    say(ClientSettings::from_process()?.token()?.expose());
    Ok(())
}
