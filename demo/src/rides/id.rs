//! The id of a ride.

use web::route::FromPath;

once::resource_id!(
    /// The public id of a ride.
    RideId,
    "ride_",
    "rides"
);

impl FromPath for RideId {
    fn from_path(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}
