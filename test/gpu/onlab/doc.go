// Package onlab shows on the lab that kubelet assigns GPUs, that the memory that engines take of them is attributed, and
// what the agent makes of it in updates: verdicts, who holds memory, sick GPUs, a device plugin that is gone. No GPU exists; what stands in for them is in the packages beside this one:
//
//	plugin  the device plugin, with which kubelet assigns them
//	claim   how an engine takes memory of them
//	stub    the driver's library, which lists it
//	rig     all of that on a node of the lab
package onlab
