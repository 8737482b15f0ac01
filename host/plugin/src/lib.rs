//! Plugins: WebAssembly components, loaded, bounded and called.
//!
//! A [`Runtime`] turns a [`PluginFile`], within the operator's [`Policy`], into a [`Generation`], which says
//! what it serves ([`Description`]) and implements [`Join`](joinery_view::Join) and [`Admit`](joinery_resource::Admit).
//! A [`DirectorySource`] says which plugins there ought to be. Who puts generations into service is the binary.
//!
//! Guests run on threads of their own, interrupted every few milliseconds, for a bounded time and in bounded memory.
//! After a trap, a time-out or a caller that went away, the instance is thrown away; the next call gets another.

mod abi;
mod cache;
mod compile;
mod declared;
mod delivery;
mod description;
mod engine;
mod error;
mod generation;
mod inspect;
mod outbound;
mod output;
mod policy;
mod pool;
mod runtime;
mod sample;
mod settings;
mod state;
mod ticker;

pub use compile::{Compile, compile_child_main};
pub use delivery::{
    ConfigMapContents, DIGEST_ANNOTATION, DeliveryError, DirectorySource, MAX_ANNOTATIONS,
    MAX_CONFIG_MAP, PLUGIN_LABEL, PackedConfigMap, PluginConfigMap, PluginFile, PluginSet,
    SIGNATURE_ANNOTATION, read_plugin,
};
pub use description::{Description, ResourceDescription, Shape, group_problem};
pub use error::{CallError, LoadError, SetupError};
pub use generation::{Generation, MakeLookup};
pub use outbound::RecordedAnswer;
pub use policy::{Grant, Grants, KeyError, Policy, SignatureError, SigningKey, TrustedKeys};
pub use pool::Stats;
pub use runtime::{Runtime, RuntimeOptions};
pub use settings::{HostSettings, Limits, Removal, Reuse};
