//! A message as a JSON object.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use joinery_object::protobuf::{Value, fields, time};
use serde_json::{Map, Value as Json};

use super::{Field, Form, Message};

/// A message as JSON. Fields that `message` does not name are left out, as Go does.
pub(super) fn object(bytes: &[u8], message: &Message) -> Result<Map<String, Json>, String> {
    let mut object = Map::new();
    for field in fields(bytes) {
        let (number, value) = field?;
        if let Some(field) = message.0.iter().find(|field| field.0 == number) {
            add(&mut object, field, value).map_err(|error| format!("{}: {error}", field.1))?;
        }
    }
    Ok(object)
}

fn add(
    object: &mut Map<String, Json>,
    Field(_, name, form): &Field,
    value: Value<'_>,
) -> Result<(), String> {
    let json = match form {
        Form::Text => Some(value.text()?)
            .filter(|text| !text.is_empty())
            .map(Json::from),
        Form::Int => Some(value.signed()?)
            .filter(|number| *number != 0)
            .map(Json::from),
        Form::IntOrNone => Some(value.signed()?.into()),
        Form::BoolOrNone => Some((value.number()? != 0).into()),
        Form::Time => time(value.bytes()?, 0)?.map(Json::from),
        Form::MicroTime => time(value.bytes()?, 6)?.map(Json::from),
        Form::Nested(message) => Some(self::object(value.bytes()?, message)?.into()),
        Form::Texts => return push(object, name, value.text()?.into()),
        Form::Objects(message) => {
            return push(object, name, self::object(value.bytes()?, message)?.into());
        }
        Form::TextMap | Form::BytesMap => {
            let (mut key, mut entry) = (String::new(), &[][..]);
            for field in fields(value.bytes()?) {
                match field? {
                    (1, value) => key = value.text()?.to_owned(),
                    (2, value) => entry = value.bytes()?,
                    _ => {}
                }
            }
            let entry = match form {
                Form::BytesMap => STANDARD.encode(entry),
                _ => Value::Bytes(entry).text()?.to_owned(),
            };
            let map = object
                .entry(*name)
                .or_insert_with(|| Json::Object(Map::new()));
            if let Json::Object(map) = map {
                map.insert(key, entry.into());
            }
            return Ok(());
        }
    };
    if let Some(json) = json {
        object.insert((*name).to_owned(), json);
    }
    Ok(())
}

fn push(object: &mut Map<String, Json>, name: &str, item: Json) -> Result<(), String> {
    if let Json::Array(items) = object
        .entry(name)
        .or_insert_with(|| Json::Array(Vec::new()))
    {
        items.push(item);
    }
    Ok(())
}
