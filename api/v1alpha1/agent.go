package v1alpha1

import (
	"strconv"
	"time"
)

// AgentLeaseDuration is how long a node's agent counts as alive after it last renewed its Lease.
const AgentLeaseDuration = 40 * time.Second

// AgentProtocol is what an agent understands of an InPlaceUpdate, and AnnotationAgentProtocol where its Lease
// says so. It is raised with every field that an older agent would leave undone: the coordinator gives
// no update in place to an agent that does not know all that the order says.
const (
	AgentProtocol           = 1
	AnnotationAgentProtocol = GroupName + "/protocol"
)

// AgentUnderstands reports whether the agent whose Lease has these annotations can follow an order.
func AgentUnderstands(annotations map[string]string) bool {
	n, err := strconv.Atoi(annotations[AnnotationAgentProtocol])
	return err == nil && n >= AgentProtocol
}

// AgentLeaseName is the name of the Lease of the agent of one node, in Pitstop's own namespace.
func AgentLeaseName(node string) string { return "pitstop-agent-" + node }
