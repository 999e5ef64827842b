//! Public ids of what lives in an object.

/// A type for a public id that encodes the id of the object in which its resource lives, so that the resource is found without an
/// index: a prefix and 43 characters of base64url. Whoever uses it depends on serde.
#[macro_export]
macro_rules! resource_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $collection:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(into = "String", try_from = "String")]
        pub struct $name($crate::id::ObjectId);

        impl $name {
            /// The one that lives in the object.
            pub const fn in_object(object: $crate::id::ObjectId) -> Self {
                Self(object)
            }

            /// Parses the public form; `None` for anything else.
            pub fn parse(text: &str) -> Option<Self> {
                $crate::id::ObjectId::from_base64url(text.strip_prefix($prefix)?).map(Self)
            }

            /// The object that holds it.
            pub const fn object(self) -> $crate::id::ObjectId {
                self.0
            }

            /// Its address on this site.
            pub fn path(self) -> String {
                format!("/{}/{self}", $collection)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = &'static str;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                Self::parse(&text).ok_or(concat!("not an id that begins with ", $prefix))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}{}", $prefix, self.0.to_base64url())
            }
        }
    };
}
