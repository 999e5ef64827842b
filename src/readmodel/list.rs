//! What `GET /payments` can be asked: `limit`, `starting_after`, `status` and `created`, as in Stripe's lists; or `order_id` alone.
//! <https://docs.stripe.com/api/pagination>

use std::ops::Range;

use once::fingerprint::FieldError;
use payments::payment::id::PaymentId;
use payments::payment::statuses::STATUSES;
use web::entries::field_error;
use web::query;

/// How many a page has, where the client does not say.
pub const LIMIT_DEFAULT: u32 = 10;
/// How many it has at most.
pub const LIMIT_MAX: u32 = 100;
/// The latest second that can be asked for, since the epoch.
pub const CREATED_MAX_S: u64 = 99_999_999_999;

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// How many at most, from 1 to 100.
    pub limit: u32,
    /// The page begins after this one.
    pub starting_after: Option<PaymentId>,
    /// Only those of this status.
    pub status: Option<String>,
    /// Only those that were made then or later, in ms since the epoch.
    pub created_from_ms: Option<u64>,
    /// Only those that were made before then, in ms since the epoch.
    pub created_before_ms: Option<u64>,
    /// The payment of this order. Nothing else is said beside it.
    pub order_id: Option<String>,
}

impl ListQuery {
    /// Reads the query of an address. The error names every parameter that is wrong.
    pub fn parse(query: &str) -> Result<Self, Vec<FieldError>> {
        let mut list = Self {
            limit: LIMIT_DEFAULT,
            starting_after: None,
            status: None,
            created_from_ms: None,
            created_before_ms: None,
            order_id: None,
        };
        let mut parameters = 0;
        let read = query::read(query, |name, value| {
            parameters += 1;
            list.take(name, value)
        });
        let mut errors = read.err().unwrap_or_default();
        if list.order_id.is_some() && parameters > 1 {
            let message = "is one order's, which has one payment: leave out the other parameters";
            errors.push(field_error("order_id", message));
        }
        if errors.is_empty() { Ok(list) } else { Err(errors) }
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "limit" => self.limit = query::limit(value, LIMIT_MAX)?,
            "starting_after" => {
                let id = PaymentId::parse(value);
                self.starting_after =
                    Some(id.ok_or("must be the id of the last payment of the page before")?);
            }
            "status" => {
                if !STATUSES.contains(&value) {
                    return Err(format!("must be one of {}", STATUSES.join(", ")));
                }
                self.status = Some(value.to_owned());
            }
            "created" => {
                let time = time(value)?;
                self.from(time.start);
                self.before(time.end);
            }
            "order_id" => self.order_id = Some(value.to_owned()),
            "created[gte]" => self.from(time(value)?.start),
            "created[gt]" => self.from(time(value)?.end),
            "created[lt]" => self.before(time(value)?.start),
            "created[lte]" => self.before(time(value)?.end),
            _ => {
                return Err(
                    "is not a parameter of this list: it takes limit, starting_after, status and created, or order_id"
                        .to_owned(),
                );
            }
        }
        Ok(())
    }

    fn from(&mut self, at_ms: u64) {
        self.created_from_ms = Some(self.created_from_ms.map_or(at_ms, |known| known.max(at_ms)));
    }

    fn before(&mut self, at_ms: u64) {
        self.created_before_ms = Some(self.created_before_ms.map_or(at_ms, |known| known.min(at_ms)));
    }
}

/// A second: as such since the epoch, or by RFC 3339; with a fraction, as `created_at` has one, its millisecond. In ms since the epoch.
fn time(text: &str) -> Result<Range<u64>, String> {
    let second = |second: u64| second.saturating_mul(1000)..second.saturating_add(1).saturating_mul(1000);
    let seconds = text.parse::<u64>().ok().filter(|seconds| *seconds <= CREATED_MAX_S);
    // A plus sign of a query is a space; RFC 3339 has none elsewhere.
    let by_date = || {
        let date = chrono::DateTime::parse_from_rfc3339(&text.replace(' ', "+")).ok()?;
        match text.contains('.') {
            true => u64::try_from(date.timestamp_millis()).ok().map(|at_ms| at_ms..at_ms.saturating_add(1)),
            false => date.timestamp().try_into().ok().map(second),
        }
    };
    seconds
        .map(second)
        .or_else(by_date)
        .ok_or_else(|| "must be seconds since 1970, or a time such as 2026-11-21T09:30:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read() {
        let list = ListQuery::parse(
            "limit=3&status=succeeded&created[gte]=10&created[lt]=2026-11-21T09:30:00%2B01:00",
        );
        let list = list.unwrap();
        assert_eq!((list.limit, list.status.as_deref()), (3, Some("succeeded")));
        assert_eq!((list.created_from_ms, list.created_before_ms), (Some(10_000), Some(1_795_249_800_000)));
        assert_eq!(ListQuery::parse("").unwrap().limit, 10);
    }

    #[test]
    fn a_time_is_its_second_or_its_millisecond() {
        let range = |query: &str| {
            let list = ListQuery::parse(query).unwrap();
            (list.created_from_ms, list.created_before_ms)
        };
        let second = "2026-11-21T08:30:00";
        assert_eq!(range(&format!("created={second}Z")), (Some(1_795_249_800_000), Some(1_795_249_801_000)));
        assert_eq!(
            range(&format!("created={second}.226Z")),
            (Some(1_795_249_800_226), Some(1_795_249_800_227))
        );
        assert_eq!(range(&format!("created[gt]={second}.226Z")), (Some(1_795_249_800_227), None));
        assert_eq!(range(&format!("created[gte]={second}.226Z")), (Some(1_795_249_800_226), None));
        assert_eq!(range(&format!("created[lt]={second}.811Z")), (None, Some(1_795_249_800_811)));
        assert_eq!(range(&format!("created[lte]={second}.811Z")), (None, Some(1_795_249_800_812)));
        assert_eq!(range("created[gt]=10&created[lte]=10"), (Some(11_000), Some(11_000)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = "limit=0&status=paid&created=yesterday&starting_after=x&page=2&status=failed";
        let named: Vec<String> =
            ListQuery::parse(wrong).unwrap_err().into_iter().map(|error| error.field).collect();
        assert_eq!(named, ["limit", "status", "created", "starting_after", "page", "status"]);
    }
}
