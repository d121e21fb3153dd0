package agent

import (
	"testing"

	"pitstop.dev/api/v1alpha1"
)

func TestNextSupersedes(t *testing.T) {
	const preparing, drain, swap = v1alpha1.StagePreparing, v1alpha1.StageDrained, v1alpha1.StageSwapping
	// openSwap: attempt 2 has patched image new, and attempt 3 wants image newer under its hold.
	openSwap := func(changes ...change) Update {
		return patched(append([]change{superseding, engine(wants("newer", Proof{State: Proved, ID: "id-newer"}))}, changes...)...)
	}
	back := engine(wants("old", Proof{State: Proved, ID: "id-old"}))
	downAtNew := engine(runs("c-new", "new"), exited)
	checkTransitions(t, Next, map[string]transition{
		"begins anew while the Pod serves": {
			asked(superseding), do(ActPull, preparing).image("new"),
		},
		"forgets what the attempt before has prepared": {
			prepared(superseding), report(v1alpha1.StagePrepared, ""),
		},
		"serves before it pulls, where the attempt before had begun to drain": {
			acknowledged(superseding, lost), do(ActOpen, v1alpha1.StagePending),
		},
		"serves before it goes on, where the attempt before was drained": {
			drained(superseding), do(ActOpen, v1alpha1.StagePending),
		},
		"prepares under the hold, once images were patched": {
			openSwap(lost), do(ActPull, preparing).image("newer"),
		},
		"reports Prepared under the hold": {
			openSwap(), report(v1alpha1.StagePrepared, ""),
		},
		"needs no second acknowledgement under the hold": {
			openSwap(idle, reported(v1alpha1.StagePrepared, "")), report(drain, ""),
		},
		"takes a new baseline before it patches": {
			openSwap(reported(drain, ""), func(u *Update) { u.Report.Since = at(59) }), report(drain, ""),
		},
		"waits until kubelet has acted on the patch before": {
			openSwap(reported(drain, "")), waits(drain, v1alpha1.WaitingKubelet).until(120),
		},
		"waits too where kubelet has made a container for the images before, and not started it": {
			openSwap(reported(drain, ""), engine(runs("c-before", "before"), made)), waits(drain, v1alpha1.WaitingKubelet).until(1900),
		},
		"patches once it has": {
			openSwap(reported(drain, ""), engine(runs("c-new", "new"))), do(ActPatch, swap),
		},
		"goes back from an image that does not start": {
			openSwap(back, downAtNew, reported(drain, "")), do(ActPatch, swap),
		},
		"goes back from a failed attempt": {
			openSwap(back, downAtNew, loading), report(v1alpha1.StagePrepared, ""),
		},
		"proves what it went back to": {
			started(attempt(3), patchedBy("ipu/3"), back, engine(func(c *Container) { c.SpecImage, c.SpecHash = "old", "hash-old" }, runs("c-again", "old"))),
			do(ActOpen, v1alpha1.StageProved),
		},
		"sees the patch before through where the image stays": {
			patched(superseding, reported(v1alpha1.StagePrepared, "")), waits(swap, v1alpha1.WaitingKubelet).until(120),
		},
		"proves all containers, since the attempt before may have changed others": {
			started(superseding, reported(drain, ""), sidecar(func(c *Container) { c.SpecImage, c.SpecHash = "new", "hash-new" }, exited)),
			waits(swap, v1alpha1.WaitingKubelet).until(1890),
		},
		"prepares while the Pod serves, where the attempt before had let it in": {
			opened(superseding, lost), do(ActPull, preparing).image("new"),
		},
		"keeps an open swap held where the order was made anew": {
			drained(superseding, held("gone/4"), patchedBy("gone/4"), imageRefused(v1alpha1.RefusedNotFound)),
			report(v1alpha1.StageRefused, v1alpha1.RefusedNotFound).says("stays out of traffic"),
		},
		"keeps it held where the new order has patched under the old one's hold": {
			patched(superseding, held("gone/4"), imageRefused(v1alpha1.RefusedNotFound)),
			report(v1alpha1.StageRefused, v1alpha1.RefusedNotFound).says("stays out of traffic"),
		},
		"gives a hold back that the order before had put on for nothing": {
			drained(superseding, held("gone/4"), patchedBy("older/9"), func(u *Update) { u.Pod.Patched.At = at(59) }),
			do(ActOpen, v1alpha1.StagePending),
		},
		"keeps it held where the times of the hold are lost too": {
			patched(superseding, held("gone/4"), imageRefused(v1alpha1.RefusedNotFound), func(u *Update) { u.Pod.Hold.LoweredAt = at(99) }),
			report(v1alpha1.StageRefused, v1alpha1.RefusedNotFound).says("stays out of traffic"),
		},
	})
}
