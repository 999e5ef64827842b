//! Whose merchant account it is of which a report of Adyen's tells.
//!
//! A merchant account is called by its name; the deployment's, which is `ADYEN_MERCHANT_ACCOUNT`, has the empty one. Where reports tell of an
//! account's own, Adyen's ids stand behind its name, as `Shop_A/PSP1`: in the lines that are kept, in what is looked for, in breaks. So lines of
//! one merchant account are never added to another's, nor compared with its payments, nor do they close its breaks.

/// Between a merchant account and an id. Neither has it.
const SEPARATOR: char = '/';

/// One of Adyen's ids, as it stands for what happened in this merchant account.
pub fn within(merchant: &str, id: &str) -> String {
    match merchant {
        "" => id.to_owned(),
        merchant => format!("{merchant}{SEPARATOR}{id}"),
    }
}

/// The merchant account, and Adyen's id.
pub fn split(id: &str) -> (&str, &str) {
    id.split_once(SEPARATOR).unwrap_or(("", id))
}

/// Adyen's id.
pub fn bare(id: &str) -> &str {
    split(id).1
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rusqlite::Connection;

    use super::*;

    /// Before, each report was of the deployment's merchant account.
    #[test]
    fn reports_of_before_are_the_deployments() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../migrations");
        let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        let (before, since): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|file| file.file_name().unwrap().to_string_lossy().as_ref() < "0041");
        for (reports, expected) in [(0, None), (2, Some((Some(7), Some(20))))] {
            let database = Connection::open_in_memory().unwrap();
            let migrate = |files: &[std::path::PathBuf]| {
                files
                    .iter()
                    .for_each(|file| database.execute_batch(&fs::read_to_string(file).unwrap()).unwrap());
            };
            migrate(&before);
            for number in 1..=reports {
                let sql = "INSERT INTO reports (report_id, name, bytes, bytes_done, line, state, counts, received_at_ms, updated_at_ms)
                    VALUES (?1, 'r.csv', 9, 9, 1, CASE ?1 WHEN 1 THEN 'done' ELSE 'waiting' END, '{}', ?1 * 20, 1)";
                database.execute(sql, [number]).unwrap();
                let sql = "INSERT INTO report_lines VALUES (?1, ?1, 2, 'Settled', 'PSP', 'PSP', NULL, 1, 'eur', ?1 + 6, '1')";
                database.execute(sql, [number]).unwrap();
            }
            migrate(&since);
            let sql = "SELECT since_ms, until_ms FROM reported_merchants WHERE merchant_account = ''";
            let found = database.query_row(sql, (), |row| Ok((row.get(0)?, row.get(1)?))).ok();
            assert_eq!(found, expected);
            let sql = "SELECT count(*) FROM reports WHERE merchant_account IS NULL";
            assert_eq!(database.query_row(sql, (), |row| row.get::<_, i64>(0)), Ok(reports));
        }
    }

    #[test]
    fn an_id_is_read_as_it_was_written() {
        for (merchant, written) in [("", "PSP1"), ("Shop_A-1.x", "Shop_A-1.x/PSP1")] {
            let id = within(merchant, "PSP1");
            assert_eq!(id, written);
            assert_eq!((split(&id), bare(&id)), ((merchant, "PSP1"), "PSP1"));
        }
    }
}
