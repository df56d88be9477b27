//! The real image behind the real HAProxy, in containers: what users see, and what they see when processes die.
//!
//! Needs Docker, the image (`deploy/compose build`; another one is named by `ARKVORY_IMAGE`) and the base images
//! (`deploy/base-images`). The containers are started as compose.yaml describes them, with smaller numbers. One stack
//! runs at a time; everything carries a label and is removed at the end, also of a test that fails.

mod blueprint;
mod clients;
mod compose;
mod docker;
mod faults;
mod http;
mod load;
mod node;
mod patience;
mod programs;
mod proxy;
mod rate;
mod reading;
mod stack;
mod starting;
