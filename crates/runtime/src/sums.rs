//! What all of the newest places say, for sums: more statements than one in one request to each, and nothing of an answer is kept but what is added up.

use serde::de::DeserializeOwned;
use worker::Result;

use crate::db::{Db, Statement};
use crate::places::ReadModel;

impl ReadModel {
    /// How many places are asked for a list, at most.
    pub async fn number_listed(&self) -> Result<usize> {
        let shards = self.directory().await?.shards.names.len();
        Ok(shards.saturating_add(1).min(self.list_shards_max()?.max(1)))
    }

    /// Gives to `add` what each of these statements has found in each of the newest places, of which as many are asked as for a list: with its number
    /// among the statements, place by place. Each statement gives one row with one text, which is JSON.
    pub async fn add_up<T: DeserializeOwned>(
        &self,
        statements: &[Statement],
        add: impl Fn(usize, T),
    ) -> Result<()> {
        #[derive(serde::Deserialize)]
        struct Found {
            found: String,
        }
        let directory = self.directory().await?;
        let names = directory.shards.names.iter().map(|(_, name)| name.clone());
        let shards = self.at_most(self.list_shards_max()?, names);
        let places = std::iter::once(self.d1()?).chain(shards).collect();
        let asked = self.each(places, async |db: Db| {
            for (number, rows) in db.rows_of_each(statements.to_vec()).await?.into_iter().enumerate() {
                for Found { found } in rows.rows::<Found>()? {
                    add(number, json_text::from_str(&found)?);
                }
            }
            Ok(())
        });
        asked.await.map(drop)
    }
}
