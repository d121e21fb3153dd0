package v1alpha1

import "time"

// AgentLeaseDuration is how long a node's agent counts as alive after it last renewed its Lease.
const AgentLeaseDuration = 40 * time.Second

// AgentLeaseName is the name of the Lease of the agent of one node, in Pitstop's own namespace.
func AgentLeaseName(node string) string { return "pitstop-agent-" + node }
