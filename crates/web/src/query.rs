//! The parameters of a query, each of which may be given once.

use once::fingerprint::FieldError;

use crate::entries::field_error;

/// Gives each parameter of a query, by name and value, to `take`, which says what is wrong with it. The errors name every parameter that is wrong or
/// is given again.
pub fn read(
    query: &str,
    mut take: impl FnMut(&str, &str) -> Result<(), String>,
) -> Result<(), Vec<FieldError>> {
    // What cannot be decoded is read with replacement characters: this never fails.
    let pairs: Vec<(String, String)> = serde_urlencoded::from_str(query).unwrap_or_default();
    let mut errors = Vec::new();
    for (position, (name, value)) in pairs.iter().enumerate() {
        let is_again = pairs.iter().take(position).any(|(other, _)| other == name);
        let taken = if is_again { Err("must be given once".to_owned()) } else { take(name, value) };
        errors.extend(taken.err().map(|message| field_error(name, message)));
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// The value of the only parameter that an address takes; empty where it is not given.
pub fn only(parameter: &str, query: &str) -> Result<String, Vec<FieldError>> {
    let mut found = String::new();
    read(query, |name, value| {
        if name != parameter {
            return Err(format!("is not a parameter of this address: it takes {parameter}"));
        }
        value.clone_into(&mut found);
        Ok(())
    })?;
    Ok(found)
}

/// How many entries a page of a list has, from 1 to `max`.
pub fn limit(text: &str, max: u32) -> Result<u32, String> {
    let limit = text.parse().ok().filter(|limit| (1..=max).contains(limit));
    limit.ok_or_else(|| format!("must be a whole number from 1 to {max}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_parameter_is_decoded_and_may_be_left_out() {
        assert_eq!(only("after", "after=a%20b"), Ok("a b".to_owned()));
        assert_eq!(only("after", ""), Ok(String::new()));
    }

    #[test]
    fn another_parameter_and_one_that_is_given_again_are_wrong() {
        let errors = only("after", "after=1&after=2&before=3").unwrap_err();
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["after", "before"]);
    }

    #[test]
    fn a_limit_is_a_whole_number_from_1_to_its_maximum() {
        assert_eq!(limit("3", 3), Ok(3));
        for wrong in ["0", "4", "-1", "1.0", ""] {
            assert!(limit(wrong, 3).is_err(), "{wrong}");
        }
    }
}
