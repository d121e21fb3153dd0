package agent

import (
	"testing"

	"pitstop.dev/api/v1alpha1"
)

func TestNextDrains(t *testing.T) {
	const prepare, drain, empty = v1alpha1.StagePrepared, v1alpha1.StageDraining, v1alpha1.StageDrained
	delay := func(u *Update) { u.Order.DrainMode = v1alpha1.DrainDelay }
	justAnswered := func(u *Update) { u.Pod.Hold.Acknowledged = at(98.5) }
	asked := func(token string) change { return func(u *Update) { u.Pod.Announced = token } }
	router := func(u *Update) { u.Order.DrainMode, u.Pod.Announced = v1alpha1.DrainRouter, "ipu/2" }
	drainOver := func(u *Update) { u.Pod.Hold.Acknowledged = at(100 - 303) }
	checkTransitions(t, Next, map[string]transition{
		"takes a prepared Pod out of traffic": {
			prepared(), do(ActHold, drain),
		},
		"takes one that another holder keeps out of traffic": {
			prepared(heldByOther), do(ActHold, drain),
		},
		"takes none while the runtime is silent, though its image was seen": {
			prepared(func(u *Update) { u.Node.RuntimeUp = false }), waits(prepare, v1alpha1.WaitingRuntime).until(1850),
		},
		"takes none without a journal": {
			prepared(journalShut), waits(prepare, v1alpha1.WaitingJournal).until(1850),
		},
		"takes none while the node settles": {
			prepared(func(u *Update) { u.Node.NotNow, u.Node.NotNowUntil = v1alpha1.WaitingSettle, at(130) }),
			waits(prepare, v1alpha1.WaitingSettle).until(130),
		},
		"takes none without its device plugin": {
			prepared(func(u *Update) { u.Node.NotNow, u.Node.NotNowUntil = v1alpha1.WaitingDevicePlugin, at(102) }),
			waits(prepare, v1alpha1.WaitingDevicePlugin).until(102),
		},
		"a mere drain waits for neither: it ends no container": {
			prepared(nothingAsked, func(u *Update) { u.Node.NotNow, u.Order.Permit = v1alpha1.WaitingGPU, v1alpha1.PermitDrain }), do(ActHold, drain),
		},
		"waits for kubelet to see the gate": {
			lowered(), waits(drain, v1alpha1.WaitingAcknowledge).until(1860),
		},
		"stores when kubelet saw it": {
			lowered(func(u *Update) { u.Pod.NotReadyAcknowledged = true }), do(ActAcknowledge, drain),
		},
		"gives endpoints their delay, to the millisecond": {
			acknowledged(justAnswered), waits(drain, v1alpha1.WaitingPropagation).until(101.5),
		},
		"gives them the delay where there is nothing to drain": {
			acknowledged(idle, justAnswered), waits(drain, v1alpha1.WaitingPropagation).until(101.5),
		},
		"waits for requests, and says how many": {
			acknowledged(), waits(drain, v1alpha1.WaitingDrain).until(61 + 3 + 300).says("2 requests running"),
		},
		"waits a plain delay out": {
			acknowledged(delay), waits(drain, v1alpha1.WaitingDrain).until(61 + 3 + 300),
		},
		"reports Drained, with the baseline, when no request is left": {
			acknowledged(idle), report(empty, ""),
		},
		"reports Drained at the timeout, whatever is left": {
			acknowledged(drainOver), report(empty, ""),
		},
		"reports Drained after the delay": {
			acknowledged(delay, drainOver), report(empty, ""),
		},
		"waits for the router's answer, and says so": {
			acknowledged(router, func(u *Update) { u.Drain.Message = "the router has not answered" }),
			waits(drain, v1alpha1.WaitingDrain).until(61 + 3 + 300).says("the router has not answered"),
		},
		"gives endpoints their delay though the router has answered": {
			acknowledged(router, idle, justAnswered), waits(drain, v1alpha1.WaitingPropagation).until(101.5),
		},
		"reports Drained when router and engine have no request left": {
			acknowledged(router, idle), report(empty, ""),
		},
		"reports Drained at the timeout, whatever the router says": {
			acknowledged(router, drainOver), report(empty, ""),
		},
		"asks the router anew under the hold of an attempt before": {
			acknowledged(router, idle, held("ipu/1"), openAtVerified, asked("ipu/1")), do(ActAnnounce, drain),
		},
		"asks the router anew where its question was removed": {
			lowered(router, asked("")), do(ActAnnounce, drain),
		},
		"asks the router where an attempt before has drained without it": {
			acknowledged(router, held("ipu/1"), openAtVerified, asked("")), do(ActAnnounce, drain),
		},
		"takes back what an attempt before has asked the router": {
			acknowledged(idle, held("ipu/1"), openAtVerified, asked("ipu/1")), do(ActAnnounce, drain),
		},
		"asks no router after Drained": {
			drained(router, permit(v1alpha1.PermitDrain), asked("")), waits(empty, v1alpha1.WaitingPermit),
		},
		"drains nothing where none is asked for": {
			acknowledged(func(u *Update) { u.Order.DrainMode = "" }), report(empty, ""),
		},
		"says so where the next permit is missing": {
			acknowledged(idle, permit(v1alpha1.PermitDrain)), report(empty, v1alpha1.WaitingPermit),
		},
		"drains a Pod of which nothing changes": {
			acknowledged(nothingAsked, permit(v1alpha1.PermitDrain)), waits(drain, v1alpha1.WaitingDrain).until(61 + 3 + 300),
		},
		"drains it at permit Swap too": {
			prepared(nothingAsked, permit(v1alpha1.PermitSwap)), do(ActHold, drain),
		},
		"goes on without a journal": {
			acknowledged(idle, journalShut), report(empty, ""),
		},
		"serves while a lost image comes again": {
			acknowledged(lost), do(ActOpen, v1alpha1.StagePreparing),
		},
		"keeps a unit's Pod held while a lost image comes again": {
			acknowledged(openAtVerified, lost), do(ActPull, v1alpha1.StagePreparing).image("new"),
		},
		"is Prepared again where it served meanwhile": {
			drained(released, isReady), report(prepare, ""),
		},
		"is Prepared again where it served in the middle of the drain": {
			acknowledged(released, isReady, reported(drain, v1alpha1.WaitingDrain)), report(prepare, ""),
		},
		"takes no baseline while the runtime is silent": {
			acknowledged(nothingAsked, permit(v1alpha1.PermitDrain), runtimeDown, idle), waits(drain, v1alpha1.WaitingRuntime).until(1860),
		},
		"does not take the baseline of an earlier hold for this one's": {
			drained(func(u *Update) { u.Report.Since = at(59) }), report(empty, ""),
		},
	})
}
