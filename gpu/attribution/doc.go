// Package attribution says whose processes hold memory on the GPUs, and which container has which GPU.
//
//	NVML: PID --> procfs: start time, control groups --> container id --> the runtime: Pod, PID of its first process
//	kubelet: namespace, Pod, container --> device ids --> GPU, MIG device
//
// Every join can fail, and says so: a process is attributed, or unattributed for a reason, or unknown where two
// sources disagree or one did not answer. Nothing that could not be read counts as nothing held.
package attribution
