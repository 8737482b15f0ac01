//! Bounds, checked before anything is compiled.

use std::sync::Arc;

use wasmparser::{Encoding, Parser, Payload};

use crate::abi::{self, Adapter, Exported};
use crate::error::LoadError;

/// The largest component, in bytes. An interpreter with a plugin inside has 10 to 20 MiB.
pub(crate) const MAX_BYTES: u64 = 32 << 20;
/// Functions with a body, over all modules in the component.
const MAX_FUNCTIONS: u64 = 50_000;
/// The largest single body, in bytes: a compiler's time grows faster than its input.
const MAX_BODY: u64 = 512 << 10;
/// Core modules and nested components. One of Python has 41: its libraries are linked when it is instantiated.
const MAX_MODULES: u64 = 64;
/// Imports of the component, and of each module in it. Such libraries import each other's functions one by one, some 900.
const MAX_IMPORTS: u64 = 2_000;

/// What a component is by its outline.
pub(crate) struct Inspected {
    /// Of the contract that it was written for.
    pub(crate) adapter: Arc<dyn Adapter>,
    /// Which shapes it can serve.
    pub(crate) exported: Exported,
}

/// Reads the component's outline. What is inside of the functions is the compiler's to judge.
pub(crate) fn inspect(bytes: &[u8], adapters: &[Arc<dyn Adapter>]) -> Result<Inspected, LoadError> {
    bound("bytes", bytes.len() as u64, MAX_BYTES)?;
    if bytes.is_empty() {
        return Err(LoadError::Empty);
    }
    let corrupt = |error: wasmparser::BinaryReaderError| LoadError::Corrupt(error.to_string());
    let (mut functions, mut modules) = (0, 0);
    let (mut imports, mut exports) = (Vec::new(), Vec::new());
    // How many modules and components around the one being read have not ended.
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(corrupt)? {
            Payload::Version {
                encoding: Encoding::Module,
                ..
            } if depth == 0 => {
                return Err(LoadError::CoreModule);
            }
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                modules += 1;
                bound("modules", modules, MAX_MODULES)?;
            }
            Payload::CodeSectionStart { count, .. } => {
                functions += u64::from(count);
                bound("functions", functions, MAX_FUNCTIONS)?;
            }
            Payload::CodeSectionEntry(body) => {
                bound("bytes in one function", body.range().len() as u64, MAX_BODY)?;
            }
            Payload::ImportSection(section) => {
                bound("imports", u64::from(section.count()), MAX_IMPORTS)?
            }
            Payload::ComponentImportSection(section) => {
                bound("imports", u64::from(section.count()), MAX_IMPORTS)?;
                for import in section {
                    let name = import.map_err(corrupt)?.name.0;
                    if depth == 1 {
                        imports.push(name);
                    }
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                bound("exports", u64::from(section.count()), MAX_IMPORTS)?;
                for export in section {
                    exports.push(export.map_err(corrupt)?.name.0);
                }
            }
            _ => {}
        }
    }
    if depth != 0 {
        return Err(LoadError::Corrupt("unexpected end of file".to_owned()));
    }
    let inspected = exported(&exports, adapters)?;
    imported(&imports, &*inspected.adapter)?;
    Ok(inspected)
}

fn bound(what: &'static str, found: u64, limit: u64) -> Result<(), LoadError> {
    if found <= limit {
        Ok(())
    } else {
        Err(LoadError::TooLarge { what, found, limit })
    }
}

/// Package, interface, and version of a name such as `joinery:plugin/join@0.1.0`.
fn parts(name: &str) -> Option<(&str, &str, &str)> {
    let (package, rest) = name.split_once('/')?;
    let (interface, version) = rest.split_once('@')?;
    Some((package, interface, version))
}

/// The host goes by what is exported: the versions first, so that a plugin for a later contract hears just that.
fn exported(exports: &[&str], adapters: &[Arc<dyn Adapter>]) -> Result<Inspected, LoadError> {
    let newest = adapters
        .last()
        .ok_or_else(|| LoadError::Host("this host speaks no contract".to_owned()))?;
    let mut adapter: Option<&Arc<dyn Adapter>> = None;
    let mut interfaces = Vec::new();
    for name in exports {
        if !name.starts_with("joinery:plugin/") {
            continue;
        }
        let found = parts(name).and_then(|(_, interface, version)| {
            let adapter = adapters.iter().find(|a| abi::is_of(version, a.version()))?;
            Some((interface, adapter))
        });
        let Some((interface, found)) = found else {
            return Err(LoadError::Contract {
                found: (*name).to_owned(),
                speaks: abi::speaks(adapters),
            });
        };
        match adapter {
            Some(other) if other.version() != found.version() => {
                return Err(LoadError::Contracts {
                    found: exports.join(", "),
                });
            }
            _ => adapter = Some(found),
        }
        interfaces.push(interface);
    }
    let adapter = adapter.unwrap_or(newest);
    if let Some(exported) = adapter.exported(&interfaces) {
        return Ok(Inspected {
            adapter: adapter.clone(),
            exported,
        });
    }
    let found = if exports.is_empty() {
        "nothing".to_owned()
    } else {
        exports.join(", ")
    };
    Err(LoadError::Exports {
        found,
        wanted: adapter.wants(),
    })
}

fn imported(imports: &[&str], adapter: &dyn Adapter) -> Result<(), LoadError> {
    let allowed = |name: &str| match parts(name) {
        Some(("joinery:plugin", interface, version)) => {
            adapter.imports().contains(&interface) && abi::is_of(version, adapter.version())
        }
        Some((
            "wasi:cli" | "wasi:clocks" | "wasi:filesystem" | "wasi:io" | "wasi:random"
            | "wasi:sockets",
            _,
            version,
        )) => version.starts_with("0.2."),
        _ => false,
    };
    let refused: Vec<_> = imports
        .iter()
        .filter(|name| !allowed(name))
        .copied()
        .collect();
    if refused.is_empty() {
        return Ok(());
    }
    Err(LoadError::Imports {
        found: refused.join(", "),
        allowed: format!(
            "joinery:plugin/{} @{}",
            adapter.imports().join(", "),
            adapter.version()
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inspect(bytes: &[u8]) -> Result<Exported, LoadError> {
        super::inspect(bytes, &abi::adapters()).map(|inspected| inspected.exported)
    }

    fn error(text: &str) -> String {
        inspect(&wat::parse_str(text).unwrap())
            .unwrap_err()
            .to_string()
    }

    const EXPORTS: &str = r#"(instance $i)
        (export "joinery:plugin/setup@0.1.0" (instance $i)) (export "joinery:plugin/join@0.1.3" (instance $i))"#;

    #[test]
    fn what_is_no_component_is_told_apart() {
        assert!(matches!(inspect(b""), Err(LoadError::Empty)));
        assert!(matches!(
            inspect(b"#!/bin/sh\n"),
            Err(LoadError::Corrupt(_))
        ));
        assert!(matches!(
            inspect(&wat::parse_str("(module)").unwrap()),
            Err(LoadError::CoreModule)
        ));
    }

    #[test]
    fn a_component_that_is_cut_anywhere_is_refused() {
        let whole = wat::parse_str(format!(
            "(component (core module (func (loop (br 0)))) {EXPORTS})"
        ))
        .unwrap();
        assert_eq!(
            inspect(&whole).unwrap(),
            Exported {
                join: true,
                admission: false,
                verbs: false
            }
        );
        // After its last export there are only names for debuggers.
        let export = whole
            .windows(4)
            .rposition(|bytes| bytes == b"join")
            .unwrap();
        for end in 0..export + 4 {
            assert!(
                inspect(&whole[..end]).is_err(),
                "{end} of {} bytes",
                whole.len()
            );
        }
    }

    #[test]
    fn what_it_lacks_or_has_too_new_is_named() {
        assert!(
            error("(component)")
                .contains("exports nothing: a plugin exports joinery:plugin/setup@0.1.0")
        );
        let lone =
            r#"(component (instance $i) (export "joinery:plugin/setup@0.1.0" (instance $i)))"#;
        assert!(error(lone).starts_with("exports joinery:plugin/setup@0.1.0: a plugin exports"));
        let newer =
            r#"(component (instance $i) (export "joinery:plugin/setup@0.2.0" (instance $i)))"#;
        assert!(error(newer).starts_with(
            "written for joinery:plugin/setup@0.2.0: this host speaks joinery:plugin@0.1, so"
        ));
    }

    #[test]
    fn imports_beyond_the_contract_are_named() {
        let import = |name| format!(r#"(component (import "{name}" (instance)) {EXPORTS})"#);
        for name in [
            "joinery:plugin/log@0.1.0",
            "joinery:plugin/log@0.1.9",
            "wasi:cli/stdin@0.2.6",
        ] {
            assert!(
                inspect(&wat::parse_str(import(name)).unwrap()).is_ok(),
                "{name}"
            );
        }
        for name in [
            "acme:db/sql@1.0.0",
            "wasi:http/handler@0.2.0",
            "wasi:cli/stdin@0.3.0",
            "joinery:plugin/x@0.1.0",
        ] {
            assert!(
                error(&import(name)).starts_with(&format!("imports {name}: ")),
                "{name}"
            );
        }
    }

    #[test]
    fn there_may_not_be_too_much_of_anything() {
        let modules = "(core module)".repeat(65);
        assert!(
            error(&format!("(component {modules} {EXPORTS})"))
                .starts_with("modules: 65, at most 64")
        );
        let functions = "(func)".repeat(50_001);
        assert!(
            error(&format!("(component (core module {functions}) {EXPORTS})"))
                .starts_with("functions: 50001")
        );
        let body = "(drop (i32.const 1))".repeat(200_000);
        assert!(
            error(&format!(
                "(component (core module (func {body})) {EXPORTS})"
            ))
            .starts_with("bytes in one function")
        );
        assert!(matches!(
            inspect(&vec![0; (32 << 20) + 1]),
            Err(LoadError::TooLarge { what: "bytes", .. })
        ));
    }
}
