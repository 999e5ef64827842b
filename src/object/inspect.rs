//! What an operator asks of an object: to show all, and to go on without waiting for its time.

use std::time::Duration;

use super::drive::Drive;
use super::log::{audit_after, events};
use messages::inspection::Inspection;
use once::alarm::let_go;
use once::context::Bug;
use payments::transitions::{answering, ingest};

/// How many audit records are shown.
const AUDIT_SHOWN: u32 = 500;
/// How long an operator waits for what was begun; it goes on without them.
pub(super) const PATIENCE: Duration = Duration::from_secs(8);

impl Drive {
    /// All that an operator may see. `None` where nothing is.
    pub(super) fn inspect(&self) -> Result<Option<Inspection>, Bug> {
        let Some(rows) = self.store().read_counted()?.filter(|rows| !rows.keys.is_empty()) else {
            return Ok(None);
        };
        let audit = audit_after(self.store(), 0, AUDIT_SHOWN)?;
        let now_ms = self.context().now_ms;
        Ok(Some(Inspection::of(&rows, self.store().timeline()?, events(self.store())?, audit, now_ms)))
    }

    /// Takes up now what waits for its time. `ask` also asks the provider about everything whose outcome it alone knows. Gives
    /// whether anything was ever written here.
    pub(super) async fn go_on(&self, ask: bool) -> Result<bool, Bug> {
        if self.store().read()?.is_none() {
            return Ok(false);
        }
        let ctx = self.context();
        self.store().transaction(&ctx, |rows| {
            let_go(rows, self.me(), &ctx);
            answering::resume(rows, &ctx);
            if ask {
                ingest::ask_all(rows, &ctx);
                answering::expedite(rows, &ctx);
            }
            Ok::<_, Bug>(())
        })?;
        self.wake_within(PATIENCE).await;
        Ok(true)
    }
}
