use super::*;

#[test]
fn labels_are_those_of_dns() {
    for good in ["a", "tasks", "a-b", "a1"] {
        assert!(label(good), "{good}");
    }
    for bad in ["", "-a", "a-", "1a", "A", "a.b", "a_b", &"a".repeat(64)] {
        assert!(!label(bad), "{bad}");
    }
}

#[test]
fn versions_are_those_of_kubernetes() {
    for good in ["v1", "v10", "v1beta1", "v2alpha12"] {
        assert!(is_version(good), "{good}");
    }
    for bad in [
        "", "v", "1", "v0", "v01", "v1beta", "v1gamma1", "v1beta0", "V1", "v1.2",
    ] {
        assert!(!is_version(bad), "{bad}");
    }
}
