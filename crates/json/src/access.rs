//! The parts of arrays, objects and enums, for those who read them.

use std::borrow::Cow;

use serde::de::value::CowStrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Result};

use crate::reader::{Numeric, Reader, whole};

pub(crate) struct Parts<'a, 'de> {
    reader: &'a mut Reader<'de>,
    is_first: bool,
}

impl<'a, 'de> Parts<'a, 'de> {
    pub(crate) fn of(reader: &'a mut Reader<'de>) -> Self {
        Self { reader, is_first: true }
    }
}

impl<'de> SeqAccess<'de> for Parts<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        if self.reader.has_next(&mut self.is_first, b']')? {
            seed.deserialize(&mut *self.reader).map(Some)
        } else {
            Ok(None)
        }
    }
}

impl<'de> MapAccess<'de> for Parts<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        match self.reader.name(&mut self.is_first)? {
            Some(name) => seed.deserialize(Name(name)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        seed.deserialize(&mut *self.reader)
    }
}

/// The name of a member: a text, which may also be the number, `true` or `false` that a map has for a key.
pub(crate) struct Name<'de>(Cow<'de, str>);

impl<'de> Name<'de> {
    fn enumerated(self) -> CowStrDeserializer<'de, Error> {
        self.0.into_deserializer()
    }
}

impl<'de> Deserializer<'de> for Name<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0 {
            Cow::Borrowed(name) => visitor.visit_borrowed_str(name),
            Cow::Owned(name) => visitor.visit_string(name),
        }
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_str(&self.0)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.0.as_ref() {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            text => Err(Error::invalid_type(Unexpected::Str(text), &visitor)),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match numeric(&self.0) {
            Some(Numeric::Positive(number)) => visitor.visit_u64(number),
            Some(Numeric::Negative(number)) => visitor.visit_i64(number),
            Some(Numeric::Float(number)) => visitor.visit_f64(number),
            None => Err(Error::invalid_type(Unexpected::Str(&self.0), &visitor)),
        }
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match whole(&self.0) {
            Some(number) => visitor.visit_i128(number),
            None => Err(Error::invalid_type(Unexpected::Str(&self.0), &visitor)),
        }
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match whole(&self.0) {
            Some(number) => visitor.visit_u128(number),
            None => Err(Error::invalid_type(Unexpected::Str(&self.0), &visitor)),
        }
    }

    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_i16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.enumerated().deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct ignored_any
    }
}

/// The number that all of the name is.
#[inline(never)]
fn numeric(name: &str) -> Option<Numeric> {
    let mut reader = Reader::new(name);
    if reader.digits().len() == name.len() { reader.number().ok().flatten() } else { None }
}

/// A variant of an enum: its name alone, or the one member of an object.
pub(crate) struct Variant<'a, 'de> {
    pub(crate) reader: &'a mut Reader<'de>,
    pub(crate) name: Cow<'de, str>,
    pub(crate) has_content: bool,
}

/// What a variant holds.
pub(crate) struct Content<'a, 'de> {
    reader: &'a mut Reader<'de>,
    is_there: bool,
}

impl<'a, 'de> EnumAccess<'de> for Variant<'a, 'de> {
    type Error = Error;
    type Variant = Content<'a, 'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self::Variant)> {
        let content = Content { reader: self.reader, is_there: self.has_content };
        seed.deserialize(Name(self.name)).map(|variant| (variant, content))
    }
}

impl<'a, 'de> Content<'a, 'de> {
    fn expect(self, what: &'static str) -> Result<&'a mut Reader<'de>> {
        if self.is_there { Ok(self.reader) } else { Err(Error::invalid_type(Unexpected::UnitVariant, &what)) }
    }
}

impl<'de> VariantAccess<'de> for Content<'_, 'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<()> {
        if !self.is_there || self.reader.word("null") { Ok(()) } else { Err(self.reader.unexpected(&"unit")) }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value> {
        seed.deserialize(self.expect("newtype variant")?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        self.expect("tuple variant")?.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value> {
        self.expect("struct variant")?.deserialize_map(visitor)
    }
}
