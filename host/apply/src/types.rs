//! Types: what a schema says about who may own which part of an object.
//!
//! Follows `schema.Schema` of k8s.io/structured-merge-diff, and how k8s.io/kube-openapi (pkg/schemaconv) and
//! k8s.io/apiextensions-apiserver (pkg/controller/openapi/builder) make one of a CRD's structural schema.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use joinery_schema::StructuralSchema;

/// A type in [`Types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypeId(usize);

/// Of values that are owned as a whole, whatever they are.
const UNTYPED_ATOMIC: TypeId = TypeId(0);
/// Of values without a schema: their maps are granular, their lists are owned as a whole.
const DEDUCED: TypeId = TypeId(1);

/// The types of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Types {
    atoms: Vec<Atom>,
    root: TypeId,
}

/// What a value may be: any of those that are there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Atom {
    pub(crate) scalar: Option<Scalar>,
    pub(crate) list: Option<ListType>,
    pub(crate) map: Option<MapType>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Numeric,
    String,
    Boolean,
    Untyped,
}

#[derive(Clone, Debug)]
pub(crate) struct ListType {
    pub(crate) element: TypeId,
    /// Owned as a whole. Else each item is owned for itself.
    pub(crate) atomic: bool,
    /// What tells the items of a list of type `map` apart. Empty for `set`.
    pub(crate) keys: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct MapType {
    pub(crate) fields: BTreeMap<String, Field>,
    /// Of members that are not among the fields. None: there must not be any.
    pub(crate) element: Option<TypeId>,
    /// Owned as a whole.
    pub(crate) atomic: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) type_: TypeId,
    /// What a missing key of a list item counts as.
    pub(crate) default: Option<Value>,
}

/// What a value is taken for.
#[derive(Clone, Copy)]
pub(crate) enum Kind<'a> {
    Map(&'a MapType),
    Scalar(Scalar),
    List(&'a ListType),
}

/// What of an atom is left in the light of a value.
#[derive(Clone, Copy)]
pub(crate) struct Deduced<'a> {
    scalar: Option<Scalar>,
    list: Option<&'a ListType>,
    map: Option<&'a MapType>,
}

impl<'a> Deduced<'a> {
    /// None: the type allows nothing.
    pub(crate) fn kind(self) -> Option<Kind<'a>> {
        self.map
            .map(Kind::Map)
            .or(self.scalar.map(Kind::Scalar))
            .or(self.list.map(Kind::List))
    }

    /// Of two values of one type: whether they are taken for the same.
    pub(crate) fn same(self, other: Self) -> bool {
        self.scalar.is_some() == other.scalar.is_some()
            && self.list.is_some() == other.list.is_some()
            && self.map.is_some() == other.map.is_some()
    }
}

impl Atom {
    /// What the value is, where the type allows it. Nulls, missing values and those of a wrong type leave all open.
    pub(crate) fn deduce(&self, value: Option<&Value>) -> Deduced<'_> {
        let all = Deduced {
            scalar: self.scalar,
            list: self.list.as_ref(),
            map: self.map.as_ref(),
        };
        let none = Deduced {
            scalar: None,
            list: None,
            map: None,
        };
        match value {
            Some(Value::Object(_)) if all.map.is_some() => Deduced {
                map: all.map,
                ..none
            },
            Some(Value::Array(_)) if all.list.is_some() => Deduced {
                list: all.list,
                ..none
            },
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) if all.scalar.is_some() => {
                Deduced {
                    scalar: all.scalar,
                    ..none
                }
            }
            _ => all,
        }
    }
}

impl MapType {
    /// The type of a member. None: there must be no such member.
    pub(crate) fn type_of(&self, name: &str) -> Option<TypeId> {
        self.fields
            .get(name)
            .map_or(self.element, |field| Some(field.type_))
    }
}

impl Types {
    /// The types of a kind; without a schema all are deduced from the values.
    pub(crate) fn new(schema: Option<&StructuralSchema>) -> Self {
        let mut types = Self {
            atoms: vec![untyped(UNTYPED_ATOMIC, true), untyped(DEDUCED, false)],
            root: DEDUCED,
        };
        if let Some(schema) = schema {
            let object_meta = types.add(&OBJECT_META, false, None);
            let mut source = schema.source().clone();
            source["x-kubernetes-embedded-resource"] = true.into();
            types.root = types.add(&source, false, Some(object_meta));
        }
        types
    }

    pub(crate) fn root(&self) -> TypeId {
        self.root
    }

    /// What a type allows; nothing where there is none.
    pub(crate) fn resolve(&self, id: Option<TypeId>) -> &Atom {
        static NOTHING: Atom = Atom {
            scalar: None,
            list: None,
            map: None,
        };
        id.and_then(|TypeId(index)| self.atoms.get(index))
            .unwrap_or(&NOTHING)
    }

    /// Whether a map is one without a schema: it names no fields, and its members may be anything.
    pub(crate) fn is_deduced(&self, map: &MapType) -> bool {
        let untyped = |id: TypeId| {
            let scalar = self.resolve(Some(id)).scalar;
            id == DEDUCED || (id != UNTYPED_ATOMIC && scalar == Some(Scalar::Untyped))
        };
        map.fields.is_empty() && map.element.is_some_and(untyped)
    }

    /// Adds the type that a schema describes. `preserve`: a schema around it keeps unknown fields.
    fn add(&mut self, schema: &Value, preserve: bool, object_meta: Option<TypeId>) -> TypeId {
        let preserve =
            preserve || schema["x-kubernetes-preserve-unknown-fields"] == Value::Bool(true);
        let mut atom = Atom::default();
        match schema["type"].as_str() {
            Some("object") => atom.map = Some(self.map(schema, preserve, object_meta)),
            Some("array") => atom.list = Some(self.list(schema, preserve, object_meta)),
            Some("integer" | "number") => atom.scalar = Some(Scalar::Numeric),
            Some("boolean") => atom.scalar = Some(Scalar::Boolean),
            Some("string") => {
                atom.scalar = Some(match schema["format"].as_str() {
                    None | Some("" | "byte") => Scalar::String,
                    Some(_) => Scalar::Untyped,
                });
            }
            _ => {
                atom.scalar = Some(Scalar::Untyped);
                atom.list = Some(self.list(schema, preserve, object_meta));
                atom.map = Some(self.map(schema, preserve, object_meta));
            }
        }
        self.push(atom)
    }

    fn push(&mut self, atom: Atom) -> TypeId {
        self.atoms.push(atom);
        TypeId(self.atoms.len() - 1)
    }

    fn list(&mut self, schema: &Value, preserve: bool, object_meta: Option<TypeId>) -> ListType {
        let element = match schema.get("items") {
            Some(items) => self.add(items, preserve, object_meta),
            None => UNTYPED_ATOMIC,
        };
        let keys = schema["x-kubernetes-list-map-keys"].as_array();
        let keys = keys.into_iter().flatten().filter_map(Value::as_str);
        let list_type = schema["x-kubernetes-list-type"].as_str();
        ListType {
            element,
            atomic: !matches!(list_type, Some("set" | "map")),
            keys: keys.map(str::to_owned).collect(),
        }
    }

    fn map(&mut self, schema: &Value, preserve: bool, object_meta: Option<TypeId>) -> MapType {
        let mut fields = BTreeMap::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let field = Field {
                type_: self.add(property, preserve, object_meta),
                default: property
                    .get("default")
                    .filter(|value| !value.is_null())
                    .cloned(),
            };
            fields.insert(name.clone(), field);
        }
        if let Some(metadata) = object_meta
            && schema["x-kubernetes-embedded-resource"] == Value::Bool(true)
        {
            let string = self.push(Atom {
                scalar: Some(Scalar::String),
                ..Atom::default()
            });
            for (name, type_) in [
                ("apiVersion", string),
                ("kind", string),
                ("metadata", metadata),
            ] {
                let field = Field {
                    type_,
                    default: None,
                };
                fields.insert(name.to_owned(), field);
            }
        }
        let element = match schema.get("additionalProperties") {
            None if preserve || fields.is_empty() => Some(DEDUCED),
            None | Some(Value::Bool(false)) => None,
            Some(Value::Bool(true)) => Some(DEDUCED),
            Some(schema) => Some(self.add(schema, preserve, object_meta)),
        };
        MapType {
            fields,
            element,
            atomic: schema["x-kubernetes-map-type"] == "atomic",
        }
    }
}

/// Any value.
fn untyped(member: TypeId, atomic: bool) -> Atom {
    Atom {
        scalar: Some(Scalar::Untyped),
        list: Some(ListType {
            element: UNTYPED_ATOMIC,
            atomic: true,
            keys: Vec::new(),
        }),
        map: Some(MapType {
            fields: BTreeMap::new(),
            element: Some(member),
            atomic,
        }),
    }
}

/// ObjectMeta, as far as it matters here; managedFields themselves are not looked at.
static OBJECT_META: LazyLock<Value> = LazyLock::new(|| {
    let of_type = |type_: &str| json!({"type": type_});
    let mut properties = Map::new();
    for name in [
        "generateName",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    ] {
        properties.insert(name.to_owned(), of_type("string"));
    }
    for name in ["deletionGracePeriodSeconds", "generation"] {
        properties.insert(name.to_owned(), of_type("integer"));
    }
    for name in ["creationTimestamp", "deletionTimestamp"] {
        let time = json!({"type": "string", "format": "date-time"});
        properties.insert(name.to_owned(), time);
    }
    for name in ["annotations", "labels"] {
        let strings = json!({"type": "object", "additionalProperties": of_type("string")});
        properties.insert(name.to_owned(), strings);
    }
    let finalizers =
        json!({"type": "array", "items": of_type("string"), "x-kubernetes-list-type": "set"});
    properties.insert("finalizers".to_owned(), finalizers);
    let owners = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
        "items": {
            "type": "object", "x-kubernetes-map-type": "atomic",
            "properties": {
                "apiVersion": of_type("string"), "blockOwnerDeletion": of_type("boolean"),
                "controller": of_type("boolean"), "kind": of_type("string"), "name": of_type("string"),
                "uid": {"type": "string", "default": ""},
            },
        },
    });
    properties.insert("ownerReferences".to_owned(), owners);
    json!({"type": "object", "properties": properties})
});
