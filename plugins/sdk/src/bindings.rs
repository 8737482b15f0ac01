//! What wit-bindgen makes of the contract. Not part of the SDK's own surface.
//!
//! One module an exported interface, each with a world of its own: a component is described by the worlds of the export
//! macros that it uses, put together. wit-bindgen's macros are named after the interface, so that a crate can generate
//! each only once.
#![allow(missing_docs, unreachable_pub, clippy::all, unsafe_code)]

pub mod setup {
    wit_bindgen::generate!({
        path: "wit/v0.1",
        inline: "
            package joinery:sdk;
            world setup {
                import joinery:plugin/log@0.1.0;
                export joinery:plugin/setup@0.1.0;
            }
        ",
        world: "joinery:sdk/setup",
        runtime_path: "::joinery_sdk::rt",
        pub_export_macro: true,
        export_macro_name: "export",
        disable_custom_section_link_helpers: true,
        generate_all,
    });
}

pub mod join {
    wit_bindgen::generate!({
        path: "wit/v0.1",
        inline: "
            package joinery:sdk;
            world join {
                export joinery:plugin/join@0.1.0;
            }
        ",
        world: "joinery:sdk/join",
        runtime_path: "::joinery_sdk::rt",
        pub_export_macro: true,
        export_macro_name: "export",
        disable_custom_section_link_helpers: true,
        with: {
            "joinery:plugin/types@0.1.0": crate::bindings::setup::joinery::plugin::types,
        },
    });
}

pub mod verbs {
    wit_bindgen::generate!({
        path: "wit/v0.1",
        inline: "
            package joinery:sdk;
            world verbs {
                import joinery:plugin/http@0.1.0;
                export joinery:plugin/verbs@0.1.0;
            }
        ",
        world: "joinery:sdk/verbs",
        runtime_path: "::joinery_sdk::rt",
        pub_export_macro: true,
        export_macro_name: "export",
        disable_custom_section_link_helpers: true,
        with: {
            "joinery:plugin/types@0.1.0": crate::bindings::setup::joinery::plugin::types,
            "joinery:plugin/http@0.1.0": generate,
        },
    });
}

pub mod admission {
    wit_bindgen::generate!({
        path: "wit/v0.1",
        inline: "
            package joinery:sdk;
            world admission {
                import joinery:plugin/kubernetes@0.1.0;
                export joinery:plugin/admission@0.1.0;
            }
        ",
        world: "joinery:sdk/admission",
        runtime_path: "::joinery_sdk::rt",
        pub_export_macro: true,
        export_macro_name: "export",
        disable_custom_section_link_helpers: true,
        with: {
            "joinery:plugin/types@0.1.0": crate::bindings::setup::joinery::plugin::types,
            "joinery:plugin/kubernetes@0.1.0": generate,
        },
    });
}
