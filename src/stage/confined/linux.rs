//! A run that no namespace holds: what its process does to itself, who answers what its filter asks, and who ends what is left of it.

mod clerk;
mod confine;
mod switch;
mod warden;

pub use clerk::{Clerk, load, pair};
pub use confine::{Confine, confine, give_up_privileges, held};
pub use switch::Switch;
pub use warden::guard;
