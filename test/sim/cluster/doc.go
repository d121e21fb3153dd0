// Package cluster is a Kubernetes API server that lives in memory, with the semantics that a
// controller can trip over: resourceVersions and conflicts, UIDs, generations that follow the spec
// alone, the status subresource, graceful deletion and finalizers, preconditions, garbage
// collection by owner, and the rules and defaults of the project's own kinds.
//
// A Client with caches reads what its process has been told so far: each kind lags behind by
// itself, a process's own write is not visible before it comes back, and no cache goes backwards.
// What the coordinator is not meant to call panics, so that a history ends there.
//
// Nothing here is safe for use by several goroutines: a history is one.
package cluster
