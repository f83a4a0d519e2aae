//! Model architectures: hyper-parameters, weight tables and graph topology.
