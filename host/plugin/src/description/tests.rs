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

fn described(resources: usize, change: impl Fn(&mut DeclaredResource)) -> Vec<String> {
    let resources = (0..resources).map(|number| {
        let mut resource = DeclaredResource {
            group: "a.example.com".to_owned(),
            version: "v1".to_owned(),
            kind: format!("Kind{number}"),
            list_kind: None,
            plural: format!("plural{number}"),
            singular: None,
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            schema: r#"{"type": "object"}"#.to_owned(),
            columns: Vec::new(),
            selectable_fields: Vec::new(),
            status: false,
            scale: false,
            shape: DeclaredShape::Stored,
            options: Vec::new(),
        };
        change(&mut resource);
        resource
    });
    let declared = Declared {
        resources: resources.collect(),
        sources: Vec::new(),
    };
    let exported = Exported {
        admission: true,
        join: true,
        verbs: true,
    };
    check(&declared, exported, &[]).err().unwrap_or_default()
}

#[test]
fn a_description_is_bounded() {
    let none: [String; 0] = [];
    assert_eq!(described(64, |_| {}), none);
    assert_eq!(
        described(20_000, |_| {}),
        ["resources: 20000, at most 64 are allowed"]
    );
    let names = |count| (0..count).map(|n| format!("n{n}")).collect::<Vec<_>>();
    let said = described(1, |resource| {
        resource.short_names = names(10_000);
        resource.selectable_fields = names(9);
        resource.schema = format!("{{{}}}", " ".repeat(1 << 20));
    });
    assert_eq!(said.len(), 3, "{said:?}");
}

#[test]
fn names_are_unique_in_a_group_and_none_of_kubernetes_own() {
    type Change = fn(&mut DeclaredResource);
    let cases: [(usize, Change, &str); 7] = [
        (
            2,
            |r| r.kind = "Same".to_owned(),
            "\"Same\" is a name of another",
        ),
        (
            2,
            |r| r.short_names = vec!["s".to_owned()],
            "\"s\" is a name of another",
        ),
        (
            2,
            |r| r.singular = Some("plural0".to_owned()),
            "\"plural0\" is a name of another",
        ),
        (
            1,
            |r| r.kind = "Status".to_owned(),
            "one of Kubernetes' own",
        ),
        (
            1,
            |r| r.list_kind = Some(String::new()),
            "list kind \"\" must be like",
        ),
        (
            1,
            |r| r.list_kind = Some(r.kind.clone()),
            "must be another than the kind",
        ),
        (
            1,
            |r| r.group = "x.joinery.dev".to_owned(),
            "belongs to Joinery itself",
        ),
    ];
    for (count, change, words) in cases {
        let said = described(count, change);
        assert!(
            said.len() == 1 && said[0].contains(words),
            "{words}: {said:?}"
        );
    }
}
