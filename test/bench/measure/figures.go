package measure

import (
	"slices"

	"pitstop.dev/test/bench/figure"
)

// The figures.
const (
	barePatch     = "bare_patch_ms"
	inPlaceOut    = "in_place_out_of_service_ms"
	inPlaceBeyond = "in_place_beyond_drain_ms"
	inPlaceRatio  = "ratio_in_place_to_bare"
	recreateOut   = "recreate_out_of_service_ms"
	pullOut       = "pull_out_of_service_ms"
	pullTime      = "pull_ms"
	pullRatio     = "pull_hidden_ratio"
	stubbornStop  = "stubborn_stop_ms"
	requests      = "streaming_requests"
	failed        = "streaming_requests_failed"
	resumeTime    = "resume_after_kill_ms"
	agentRSS      = "agent_rss_mib"
	agentPeak     = "agent_rss_peak_mib"
	apiWrites     = "api_writes_per_update"
	agentGPURSS   = "agent_rss_with_gpus_mib"
	probeRSS      = "probe_rss_mib"
	agentIdle     = "agent_idle_cpu_percent"

	planTime        = "plan_10k_ms"
	planGrowth      = "plan_growth_10x"
	hollowUnit      = "rollout_unit_ms"
	rolloutTime     = "rollout_ms"
	rolloutRatio    = "rollout_vs_ideal"
	rolloutWrites   = "coordinator_writes_per_pod"
	coordinatorRSS  = "coordinator_idle_rss_mib"
	coordinatorFull = "coordinator_rss_10k_mib"

	unitBare         = "unit_slowest_bare_patch_ms"
	unitOut          = "unit_out_of_service_ms"
	unitBeyond       = "unit_out_of_service_beyond_drain_ms"
	unitOver         = "unit_over_slowest_pod_ms"
	unitRecreate     = "unit_recreate_out_of_service_ms"
	unitAhead        = "unit_alone_until_drain_ms"
	unitAlone        = "unit_alone_ms"
	unitsTime        = "unit_rollout_ms"
	unitsRatio       = "unit_rollout_vs_ideal"
	unitsParts       = "unit_rollout_vs_parts"
	fourTime         = "rollout_4_pods_ms"
	fourRecreate     = "rollout_4_pods_recreate_ms"
	resumeWork       = "coordinator_resume_ms"
	unitRequests     = "unit_streaming_requests"
	unitFailed       = "unit_streaming_requests_failed"
	recreateRequests = "unit_recreate_streaming_requests"
	recreateFailed   = "unit_recreate_streaming_requests_failed"
)

// NewSheet returns an empty sheet for all figures.
func NewSheet() *figure.Sheet {
	return figure.NewSheet(slices.Concat(ofPods(), ofGPUs(), ofUnits(), ofTheCoordinator())...)
}

// ofPods are the figures of single Pods and of their agent.
func ofPods() []figure.Definition {
	return []figure.Definition{
		{Name: barePatch, Unit: "ms", What: "image patch, from the begin of the call, to Ready of a Pod without our gate; image present"},
		{Name: inPlaceOut, Unit: "ms", What: "Ready=False to Ready=True of an in-place update; propagation 3 s, drain by metrics, idle engine, image present"},
		{Name: inPlaceBeyond, Unit: "ms", What: "the same, less propagation and drain"},
		{Name: inPlaceRatio, Unit: "x", What: "in_place_beyond_drain_ms to bare_patch_ms of the same round", Bound: figure.AtMost(1.2)},
		{Name: recreateOut, Unit: "ms", What: "the same image change by delete and create, from the begin of the delete call to Ready; Pod without our gate"},
		{Name: pullOut, Unit: "ms", What: "Ready=False to Ready=True of an in-place update whose image has to be pulled"},
		{Name: pullTime, Unit: "ms", What: "what that pull took, while the Pod served (timings.prepare)"},
		{Name: pullRatio, Unit: "x", What: "pull_out_of_service_ms to in_place_out_of_service_ms of the same round", Bound: figure.AtMost(1.1)},
		{Name: stubbornStop, Unit: "ms", What: "patch to the end of an old container that ignores SIGTERM; grace 120 s, stopTimeoutSeconds 2", Bound: figure.AtMost(5000)},
		{Name: requests, Unit: "requests", What: "streams of 1 s from 8 clients while 4 Pods behind a Service were updated in place, one after the other, again and again", Bound: figure.AtLeast(minRequests)},
		{Name: failed, Unit: "requests", What: "those that failed", Bound: figure.AtMost(0)},
		{Name: resumeTime, Unit: "ms", What: "start of the agent's container after a SIGKILL in mid-update to its patch of the Pod", Bound: figure.AtMost(5000)},
		{Name: agentRSS, Unit: "MiB", What: "VmRSS of the agent with 110 Pods in service on its node, after 4 updates there", Bound: figure.AtMost(40)},
		{Name: agentPeak, Unit: "MiB", What: "VmHWM of the same process since its start"},
		{Name: apiWrites, Unit: "writes", What: "the agent's API writes from the order to its end, events and Leases apart, from the audit log", Bound: figure.AtMost(8)},
	}
}

// ofGPUs are the figures of the agent of a node with GPUs; none of these is real.
func ofGPUs() []figure.Definition {
	const node = "110 real Pods in service on its node and 8 stub GPUs that kubelet gave to 8 of them, whose engines hold memory there; after 4 updates of such Pods, while nothing happens"
	return []figure.Definition{
		{Name: agentGPURSS, Unit: "MiB", What: "VmRSS of the agent with " + node, Bound: figure.AtMost(40)},
		{Name: probeRSS, Unit: "MiB", What: "VmRSS of pitstop-gpu-probe, the agent's child, at the same time; the library that it has loaded is a stub", Bound: figure.AtMost(40)},
		{Name: agentIdle, Unit: "%", What: "processor time (user and system) of both together by real time, over a minute, of one core; with " + node, Bound: figure.AtMost(1)},
	}
}

// ofUnits are the figures of ModelServings that the real agents update.
func ofUnits() []figure.Definition {
	const unit = "a ServingGroup of three Pods (prefill with a worker, decode), idle engines, images present"
	return []figure.Definition{
		{Name: unitBare, Unit: "ms", What: "image patch to Ready of the slowest of three Pods like those of a unit, on the same nodes, without our gate, patched at once"},
		{Name: unitOut, Unit: "ms", What: "in place: " + unit + "; from the first Pod that is not Ready until all are Ready again; propagation 3 s, drain by metrics"},
		{Name: unitBeyond, Unit: "ms", What: "the same, from the end of the last Pod's propagation and drain on"},
		{Name: unitOver, Unit: "ms", What: "unit_out_of_service_beyond_drain_ms less unit_slowest_bare_patch_ms of the same round", Bound: figure.AtMost(2000)},
		{Name: unitRecreate, Unit: "ms", What: "unit_out_of_service_ms of the same unit with updateMethod Recreate, drain included"},
		{Name: unitAhead, Unit: "ms", What: "in place, one unit alone: from the edit until it is permitted to drain"},
		{Name: unitAlone, Unit: "ms", What: "the same unit: from that permit until the ModelServing is complete"},
		{Name: unitsTime, Unit: "ms", What: "8 such units with maxUnavailable 1, from the edit until the ModelServing is complete"},
		{Name: unitsRatio, Unit: "x", What: "unit_rollout_ms to its ideal: unit_alone_until_drain_ms once, and unit_alone_ms 8 times (medians)", Bound: figure.AtMost(1.1)},
		{Name: unitsParts, Unit: "x", What: "unit_rollout_ms to 8 times what no unit could do without: propagation, drain, and unit_slowest_bare_patch_ms (medians)"},
		{Name: fourTime, Unit: "ms", What: "four one-Pod units in place, maxUnavailable 1, propagation 2 s, from the edit until the ModelServing is complete"},
		{Name: fourRecreate, Unit: "ms", What: "the same units with updateMethod Recreate"},
		{Name: unitRequests, Unit: "requests", What: "streams of 1 s from 24 clients through a Service while 3 units of three Pods were rolled out in place, again and again", Bound: figure.AtLeast(minUnitRequests)},
		{Name: unitFailed, Unit: "requests", What: "those that failed", Bound: figure.AtMost(0)},
		{Name: recreateRequests, Unit: "requests", What: "the same during one rollout of these units with updateMethod Recreate"},
		{Name: recreateFailed, Unit: "requests", What: "those that failed"},
	}
}

// ofTheCoordinator are the figures of the coordinator.
func ofTheCoordinator() []figure.Definition {
	return []figure.Definition{
		{Name: planTime, Unit: "ms", What: "one decision over 10,000 ServingGroups x 8 Pods in mid-rollout", Bound: figure.AtMost(100)},
		{Name: planGrowth, Unit: "x", What: "the same to one over 1,000 ServingGroups, medians", Bound: figure.AtMost(12)},
		{Name: hollowUnit, Unit: "ms", What: "rollout of one ServingGroup of 4 Pods that are ready 5 s after their binding, median of 5, from the edit to complete"},
		{Name: rolloutTime, Unit: "ms", What: "the same of 200 ServingGroups with maxUnavailable 20"},
		{Name: rolloutRatio, Unit: "x", What: "rollout_ms to 10 x rollout_unit_ms", Bound: figure.AtMost(1.1)},
		{Name: rolloutWrites, Unit: "writes", What: "the coordinator's API writes in that rollout, events and Leases apart, by Pod"},
		{Name: coordinatorRSS, Unit: "MiB", What: "VmRSS of the coordinator when nothing is under way, after all that was measured before", Bound: figure.AtMost(80)},
		{Name: coordinatorFull, Unit: "MiB", What: "VmRSS of the coordinator after it has made 10,000 Pods in 1,250 ServingGroups", Bound: figure.AtMost(500)},
		{Name: resumeWork, Unit: "ms", What: "start of the coordinator's container after a SIGKILL in mid-rollout, with a drained unit waiting for it, until its write that moves the rollout", Bound: figure.AtMost(5000)},
	}
}
