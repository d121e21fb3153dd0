// Package world is everything around the coordinator in a simulated history: virtual time and
// chance, a scheduler, kubelets whose Pods start, fail and get lost, nodes that die and come back,
// the agents' real state machine on each of them, the garbage collector, and a user who scales, updates,
// deletes and gets in the way. It acts through a cluster.Server alone.
package world
