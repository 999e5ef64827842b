//! What all of the newest places say, for sums: more statements than one in one request to each.

use serde::de::DeserializeOwned;
use worker::Result;

use crate::db::{Db, RawRows, Statement};
use crate::places::ReadModel;

/// What a statement has given in each place.
pub struct PlacedRows(Vec<RawRows>);

impl PlacedRows {
    /// All rows.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        let mut all = Vec::new();
        for rows in &self.0 {
            all.extend(rows.read()?);
        }
        Ok(all)
    }
}

impl ReadModel {
    /// The rows that each of these statements has in the newest places, of which as many are asked as for a list: one request to each.
    pub async fn rows_of_each<const N: usize>(&self, statements: [Statement; N]) -> Result<[PlacedRows; N]> {
        let directory = self.directory().await?;
        let names = directory.shards.names.iter().map(|(_, name)| name.clone());
        let shards = self.at_most(self.list_shards_max()?, names);
        let places = std::iter::once(self.d1()?).chain(shards).collect();
        let found = self.each(places, async |db: Db| db.rows_of_each(statements.to_vec()).await).await?;
        let mut rows = [const { PlacedRows(Vec::new()) }; N];
        for (_, answers) in found {
            for (PlacedRows(all), answer) in rows.iter_mut().zip(answers) {
                all.push(answer);
            }
        }
        Ok(rows)
    }
}
