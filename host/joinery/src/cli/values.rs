//! What options are read as, with what is allowed in each complaint.

use std::net::SocketAddr;

/// Reads a number of bytes, with one of the suffixes of Kubernetes' quantities that stand for powers of 1024.
pub(super) fn bytes(text: &str) -> Result<usize, String> {
    let (digits, shift) = [("Ki", 10), ("Mi", 20), ("Gi", 30)]
        .into_iter()
        .find_map(|(suffix, shift)| Some((text.strip_suffix(suffix)?, shift)))
        .unwrap_or((text, 0));
    let count: usize = digits.parse().map_err(
        |_| "a whole number of bytes is needed, or one with Ki, Mi or Gi, such as 512Mi",
    )?;
    count
        .checked_mul(1 << shift)
        .ok_or_else(|| "too large".to_owned())
}

/// A DNS label (RFC 1123), as Kubernetes has the names of namespaces.
pub(crate) fn namespace(text: &str) -> Result<String, String> {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let whole = (1..=63).contains(&text.len()) && text.bytes().all(inside);
    if whole && !text.starts_with('-') && !text.ends_with('-') {
        Ok(text.to_owned())
    } else {
        Err("a namespace has 1 to 63 of a-z, 0-9 and -, with no - at its ends".to_owned())
    }
}

/// An address to listen on.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "an IP address and a port below 65536 are expected, such as 127.0.0.1:6443 or [::]:6443"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_quantities_are() {
        assert_eq!(bytes("17"), Ok(17));
        assert_eq!(bytes("512Mi"), Ok(512 << 20));
        assert_eq!(bytes("2Gi"), Ok(2 << 30));
        for wrong in ["", "Mi", "1.5Gi", "-1", "1 Gi", "1G", "99999999999Gi"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn namespaces_and_addresses_are_such() {
        assert_eq!(namespace("joinery-system"), Ok("joinery-system".to_owned()));
        for wrong in ["", "Bad_NS", "-a", "a-", "a.b", &"a".repeat(64)] {
            assert!(namespace(wrong).is_err(), "{wrong}");
        }
        assert!(address("[::1]:0").is_ok());
        for wrong in ["localhost:8443", "foo", "127.0.0.1:80000", "127.0.0.1"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
