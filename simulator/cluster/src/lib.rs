//! Virtual GPU nodes on a real API server.
