//! Bodies in Kubernetes' protobuf encoding, for the built-in kinds that standalone serves.
//!
//! client-go's typed clients write nothing else for built-in kinds, and ask for JSON as a second choice in answers only:
//! `kubectl create namespace` and `kubectl auth can-i` are such clients. So what they send is read here, once, into JSON;
//! answers are never protobuf. As for custom resources, there is no protobuf of kinds that plugins bring.
//!
//! The messages are those of the `generated.proto` files in k8s.io/api.

mod kinds;
mod wire;

use bytes::Bytes;
use joinery_object::Status;
use joinery_object::protobuf::Envelope;
use serde_json::Value;

/// Content-Type of such a body.
pub(super) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// A message by its fields.
#[derive(Debug)]
struct Message(&'static [Field]);

/// Number, JSON name and form of one field.
#[derive(Debug)]
struct Field(u32, &'static str, Form);

/// How a field is written, in protobuf and then in JSON. Fields that Go leaves out of JSON when they are empty are left
/// out here, for protobuf writes them all.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// Left out when empty.
    Text,
    /// Left out when zero.
    Int,
    /// A pointer in Go: zero is a value.
    IntOrNone,
    /// A pointer in Go: false is a value.
    BoolOrNone,
    /// To the second.
    Time,
    /// To the microsecond.
    MicroTime,
    /// One object.
    Nested(&'static Message),
    Texts,
    Objects(&'static Message),
    /// Text by text.
    TextMap,
    /// Bytes by text: base64 in JSON.
    BytesMap,
}

/// The encoded object as JSON; none when its kind is not one of those that are known here.
///
/// # Errors
/// 400 for what is no such encoding.
pub(super) fn to_json(body: &Bytes) -> Result<Option<Bytes>, Status> {
    let malformed =
        |what: String| Status::bad_request(format!("the body is no Kubernetes protobuf: {what}"));
    let Envelope {
        api_version,
        kind,
        message: raw,
    } = Envelope::open(body).map_err(malformed)?;
    let Some(message) = kinds::message(api_version, kind) else {
        return Ok(None);
    };
    let mut object = wire::object(raw, message).map_err(malformed)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    let text = serde_json::to_vec(&Value::Object(object)).map_err(Status::internal)?;
    Ok(Some(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const MAGIC: &[u8] = b"k8s\0";

    /// A field of bytes; all lengths here are below 128.
    fn bytes(number: u8, contents: &[u8]) -> Vec<u8> {
        let mut field = vec![number << 3 | 2, u8::try_from(contents.len()).unwrap()];
        field.extend(contents);
        field
    }

    fn encoded(api_version: &str, kind: &str, raw: &[u8]) -> Bytes {
        let type_meta = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
        let envelope = [MAGIC.to_vec(), bytes(1, &type_meta), bytes(2, raw)].concat();
        envelope.into()
    }

    fn decoded(body: &Bytes) -> Value {
        serde_json::from_slice(&to_json(body).unwrap().unwrap()).unwrap()
    }

    #[test]
    fn what_kubectl_sends_for_a_namespace_is_its_json() {
        let label = [bytes(1, b"team"), bytes(2, b"a")].concat();
        let metadata = [
            bytes(1, b"made"),
            bytes(2, b""),
            vec![7 << 3, 0],
            bytes(8, b""),
            bytes(11, &label),
        ]
        .concat();
        let raw = [bytes(1, &metadata), bytes(2, b""), bytes(3, &bytes(1, b""))].concat();
        assert_eq!(
            decoded(&encoded("v1", "Namespace", &raw)),
            json!({
                "apiVersion": "v1", "kind": "Namespace", "spec": {}, "status": {},
                "metadata": {"name": "made", "labels": {"team": "a"}},
            })
        );
    }

    #[test]
    fn times_numbers_bytes_and_lists_are_written_as_go_writes_them_in_json() {
        // 2030-01-01T00:00:00.25Z
        let seconds = [0x08, 0x80, 0xb1, 0xef, 0x86, 0x07];
        let time = [&seconds[..], &[0x10, 0x80, 0xe5, 0x9a, 0x77]].concat();
        let spec = [
            bytes(1, b"me"),
            vec![2 << 3, 15],
            bytes(4, &time),
            vec![5 << 3, 0],
        ]
        .concat();
        let metadata = [bytes(8, &time), bytes(14, b"one"), bytes(14, b"two")].concat();
        let raw = [bytes(1, &metadata), bytes(2, &spec)].concat();
        let lease = decoded(&encoded("coordination.k8s.io/v1", "Lease", &raw));
        assert_eq!(
            lease["spec"],
            json!({"holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 0,
                   "renewTime": "2030-01-01T00:00:00.250000Z"})
        );
        assert_eq!(
            lease["metadata"],
            json!({"creationTimestamp": "2030-01-01T00:00:00Z", "finalizers": ["one", "two"]})
        );
        let entry = [bytes(1, b"key"), bytes(2, &[0xff, 0])].concat();
        let config = decoded(&encoded("v1", "ConfigMap", &bytes(3, &entry)));
        assert_eq!(config["binaryData"], json!({"key": "/wA="}));
    }

    #[test]
    fn other_kinds_are_unknown_and_damage_is_400() {
        let other = encoded("aggregated.tasks.example.com/v1", "CustomTask", b"");
        assert_eq!(to_json(&other).unwrap(), None);
        let whole = encoded("v1", "Namespace", &bytes(1, &bytes(1, b"made")));
        for cut in 0..whole.len() {
            match to_json(&whole.slice(..cut)) {
                Err(status) => assert_eq!(status.code, 400),
                // Cut between two fields of the envelope.
                Ok(_) => assert!(cut >= MAGIC.len()),
            }
        }
        for damaged in [
            &b"{}"[..],
            b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            b"k8s\0\x0b",
        ] {
            assert_eq!(
                to_json(&Bytes::copy_from_slice(damaged)).unwrap_err().code,
                400
            );
        }
    }
}
