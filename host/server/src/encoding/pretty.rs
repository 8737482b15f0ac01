//! JSON and YAML for people.

use bytes::{Bytes, BytesMut};

/// Indents JSON by two spaces a level, as Go's MarshalIndent; keeps the order of members.
pub(super) fn pretty(json: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(json.len() * 3 / 2);
    let mut depth = 0_usize;
    let mut bytes = json.iter().copied().filter({
        let (mut in_string, mut escaped) = (false, false);
        move |byte| {
            if in_string {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' => escaped = true,
                    b'"' => in_string = false,
                    _ => {}
                }
                return true;
            }
            in_string = *byte == b'"';
            !byte.is_ascii_whitespace()
        }
    });
    let newline = |out: &mut BytesMut, depth: usize| {
        out.extend_from_slice(b"\n");
        for _ in 0..depth {
            out.extend_from_slice(b"  ");
        }
    };
    let (mut in_string, mut escaped) = (false, false);
    let mut held = bytes.next();
    while let Some(byte) = held {
        held = bytes.next();
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            out.extend_from_slice(&[byte]);
            continue;
        }
        match byte {
            b'"' => {
                in_string = true;
                out.extend_from_slice(b"\"");
            }
            b'{' | b'[' => {
                out.extend_from_slice(&[byte]);
                // Empty ones stay on one line.
                if let Some(close @ (b'}' | b']')) = held {
                    out.extend_from_slice(&[close]);
                    held = bytes.next();
                } else {
                    depth += 1;
                    newline(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                newline(&mut out, depth);
                out.extend_from_slice(&[byte]);
            }
            b',' => {
                out.extend_from_slice(b",");
                newline(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            byte => out.extend_from_slice(&[byte]),
        }
    }
    out.extend_from_slice(b"\n");
    out.freeze()
}

/// The same as YAML, members sorted as kubectl prints them.
///
/// # Errors
/// Text that cannot be written as YAML.
pub(crate) fn yaml(json: &[u8]) -> Result<Bytes, String> {
    let value: serde_json::Value = serde_json::from_slice(json).map_err(|e| e.to_string())?;
    serde_saphyr::to_string(&value)
        .map(Bytes::from)
        .map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_as_go_does_it() {
        let json = br#"{"a":{"b":[1,"x,{ \" y"],"e":{},"f":[ ]},"c":null}"#;
        assert_eq!(
            pretty(json),
            "{\n  \"a\": {\n    \"b\": [\n      1,\n      \"x,{ \\\" y\"\n    ],\n    \"e\": {},\n    \"f\": []\n  },\n  \
             \"c\": null\n}\n"
        );
    }

    #[test]
    fn yaml_reads_back_as_the_same_value() {
        let json = br#"{"a":"1","b":true,"c":"yes","d":{"e":["x: y","- z","multi\nline\n"]},"n":"null","t":"2026-01-01"}"#;
        let text = yaml(json).unwrap();
        let back: serde_json::Value =
            serde_saphyr::from_str(std::str::from_utf8(&text).unwrap()).unwrap();
        assert_eq!(
            back,
            serde_json::from_slice::<serde_json::Value>(json).unwrap()
        );
    }
}
