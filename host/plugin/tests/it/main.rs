//! Plugins as the host runs them: the real ones, and one that misbehaves as it is told.

mod calls;
mod compiling;
mod guests;
mod loading;
mod plugins;
