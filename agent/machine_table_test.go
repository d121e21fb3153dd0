package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pitstop.dev/api/v1alpha1"
)

// A transition is one row of the machine: what is observed, and the step that follows. A Message
// in want is a part of the step's; without one the step may say what it likes.
type transition struct {
	in   Update
	want Step
}

func checkTransitions(t *testing.T, next func(Update, time.Time) Step, table map[string]transition) {
	t.Helper()
	for name, tt := range table {
		t.Run(name, func(t *testing.T) {
			got := next(tt.in, at(100))
			if tt.want.Message == "" {
				got.Message = ""
			} else if strings.Contains(got.Message, tt.want.Message) {
				got.Message = tt.want.Message
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// at is so many seconds after the tables' beginning. Their present is at(100).
func at(seconds float64) time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// A change makes another Update of one.
type change func(*Update)

func (u Update) with(changes ...change) Update {
	u.Containers = append([]Container(nil), u.Containers...)
	for _, c := range changes {
		c(&u)
	}
	return u
}

// The Pod of the tables has one container, engine, that is to go from image old to image new by
// attempt 2 of order ipu. Each function below is a stage of it, made from the one before.

// asked: the Pod serves, and nothing has been done.
func asked(changes ...change) Update {
	return Update{
		Order: Order{
			Token: "ipu/2", Attempt: 2, ByHand: true, Permit: v1alpha1.PermitServe, OpenAt: v1alpha1.OpenAtProved,
			DrainMode: v1alpha1.DrainEngineMetrics, DrainFor: 5 * time.Minute, Propagation: 3 * time.Second,
			StopTimeout: 30 * time.Second, Deadline: 30 * time.Minute, Want: []string{"engine"},
		},
		Pod:        Pod{HasGate: true, GateOpen: true, ContainersReady: true, Ready: true},
		Node:       Node{RuntimeUp: true, KubeletUp: true, JournalOpen: true},
		Containers: []Container{container("engine", wants("new", Proof{State: ProofMissing}))},
	}.with(changes...)
}

// prepared: the image is on the node, which is reported.
func prepared(changes ...change) Update {
	return asked(proof(Proof{State: Proved, ID: "id-new"}), reported(v1alpha1.StagePrepared, ""), stands(v1alpha1.StagePrepared, 50)).with(changes...)
}

// lowered: the gate is closed, and kubelet has not answered.
func lowered(changes ...change) Update {
	return prepared(held("ipu/2"), stands(v1alpha1.StageDraining, 60), func(u *Update) {
		u.Pod.NotReadyAcknowledged, u.Pod.Hold.Acknowledged = false, time.Time{}
	}).with(changes...)
}

// acknowledged: kubelet has answered, the propagation delay is over and requests are left.
func acknowledged(changes ...change) Update {
	return lowered(held("ipu/2"), func(u *Update) { u.Drain.Message = "2 requests running" }).with(changes...)
}

// drained: no request is left, and the baseline is reported.
func drained(changes ...change) Update {
	return acknowledged(idle, baseline, reported(v1alpha1.StageDrained, ""), stands(v1alpha1.StageDrained, 70)).with(changes...)
}

// patched: the spec has the new image, and kubelet has not acted on it.
func patched(changes ...change) Update {
	return drained(patchedBy("ipu/2"), stands(v1alpha1.StageSwapping, 90), engine(func(c *Container) {
		c.SpecImage, c.SpecHash, c.SpecProof = "new", "hash-new", c.WantProof
	})).with(changes...)
}

// started: the new container runs and loads.
func started(changes ...change) Update {
	return patched(loading, engine(runs("c-new", "new"))).with(changes...)
}

// opened: the Pod is back in traffic as soon as it is ready.
func opened(changes ...change) Update {
	return started(released, stands(v1alpha1.StageProved, 95)).with(changes...)
}

// served: it is.
func served(changes ...change) Update {
	return opened(isReady, stands(v1alpha1.StageVerified, 97)).with(changes...)
}

func container(name string, changes ...func(*Container)) Container {
	c := Container{
		Name: name, Regular: true, RestartsAlways: true, SpecImage: "old", SpecHash: "hash-old",
		Now: Running{ID: "c-old", Up: true, Hash: "hash-old", ImageID: "id-old"},
	}
	for _, f := range changes {
		f(&c)
	}
	return c
}

func wants(image string, p Proof) func(*Container) {
	return func(c *Container) { c.Want, c.WantProof, c.SpecProof = image, p, p }
}

func runs(id, image string) func(*Container) {
	return func(c *Container) { c.Now = Running{ID: id, Up: true, Hash: "hash-" + image, ImageID: "id-" + image} }
}

func engine(changes ...func(*Container)) change {
	return func(u *Update) {
		for _, f := range changes {
			f(&u.Containers[0])
		}
	}
}

// sidecar adds a second regular container, which stays as it is unless changed.
func sidecar(changes ...func(*Container)) change {
	return func(u *Update) {
		u.Containers = append(u.Containers, container("sidecar", append([]func(*Container){runs("c-side", "old")}, changes...)...))
	}
}

func proof(p Proof) change {
	return engine(func(c *Container) { c.WantProof, c.SpecProof = p, p })
}

func pending(why v1alpha1.Reason) change { return proof(Proof{State: ProofPending, Why: why}) }

func imageRefused(why v1alpha1.Reason) change { return proof(Proof{State: ProofRefused, Why: why}) }

func lost(u *Update) { proof(Proof{State: ProofMissing})(u) }

func baseline(u *Update) {
	for i, c := range u.Containers {
		u.Containers[i].Before = Baseline{ID: c.Now.ID, ImageID: c.Now.ImageID, Image: c.SpecImage}
		u.Containers[i].Prior = []string{c.Now.ID}
	}
}

func reported(s v1alpha1.Stage, why v1alpha1.Reason) change {
	return func(u *Update) {
		u.Report = Report{Attempt: 2, Stage: s, Reason: why, Message: "as reported", Since: at(70)}
	}
}

func stands(s v1alpha1.Stage, since float64) change {
	return func(u *Update) { u.Stage, u.Since = s, at(since) }
}

// overdue: the attempt has stood at the stage for longer than its deadline.
func overdue(s v1alpha1.Stage) change { return stands(s, 100-1800) }

func permit(p v1alpha1.Permit) change { return func(u *Update) { u.Order.Permit = p } }

func openAtVerified(u *Update) { u.Order.OpenAt, u.Order.ByHand = v1alpha1.OpenAtVerified, false }

func attempt(n int64) change {
	return func(u *Update) {
		u.Order.Attempt, u.Order.Token = n, v1alpha1.Token("ipu", n)
		u.Pod.patchedByOrder = u.Pod.Patched.Token == u.Order.Token
	}
}

// superseding: attempt 3 has just come, before attempt 2 had ended.
func superseding(u *Update) {
	attempt(3)(u)
	u.Report = Report{Superseded: true}
	for i := range u.Containers {
		u.Containers[i].Before = Baseline{}
	}
}

// cancelling: so, and it names no containers.
func cancelling(u *Update) {
	superseding(u)
	nothingAsked(u)
}

func nothingAsked(u *Update) {
	u.Order.Want = nil
	for i := range u.Containers {
		u.Containers[i].Want, u.Containers[i].WantProof, u.Containers[i].SpecProof = "", Proof{}, Proof{}
	}
}

func held(token string) change {
	return func(u *Update) {
		u.Pod.GateOpen, u.Pod.Ready, u.Pod.NotReadyAcknowledged = false, false, true
		u.Pod.Hold = Hold{Token: token, LoweredAt: at(60), Acknowledged: at(61)}
	}
}

func heldByOther(u *Update) {
	u.Pod.OtherHolders = []string{"alice"}
	u.Pod.GateOpen, u.Pod.Ready = false, false
}

func released(u *Update) {
	u.Pod.Hold, u.Pod.GateOpen, u.Pod.NotReadyAcknowledged = Hold{}, true, false
}

func patchedBy(token string) change {
	return func(u *Update) {
		u.Pod.Patched = Patch{Token: token, At: at(90)}
		u.Pod.patchedByOrder = token == u.Order.Token
	}
}

func patchedLongAgo(u *Update) { u.Pod.Patched = Patch{Token: "ipu/1", At: at(-50_000)} }

// stopOver: the time that the old container had to stop is over.
func stopOver(u *Update) { u.Pod.Patched.At = at(69) }

func loading(u *Update) { u.Pod.ContainersReady, u.Pod.Ready = false, false }
func isReady(u *Update) { u.Pod.ContainersReady, u.Pod.Ready = true, u.Pod.GateOpen }
func idle(u *Update)    { u.Drain = Drain{Over: true} }

func readyAgain(u *Update) { u.Pod.NotReadyAcknowledged = false }
func podGone(u *Update)    { u.Pod = Pod{Gone: true} }
func podFailed(u *Update)  { u.Pod.Failed = true }
func relabels(u *Update)   { u.Pod.LabelsDue = true }

func runtimeDown(u *Update) {
	u.Node.RuntimeUp, u.Pod.ContainersReady, u.Pod.Ready = false, false, false
	for i := range u.Containers {
		u.Containers[i].Now = Running{}
		if u.Containers[i].Want != "" {
			u.Containers[i].WantProof, u.Containers[i].SpecProof = Proof{}, Proof{}
		}
	}
}

func kubeletDown(u *Update) { u.Node.KubeletUp = false }
func journalShut(u *Update) { u.Node.JournalOpen = false }

func exited(c *Container)   { c.Now.Up = false }
func made(c *Container)     { c.Now.Up, c.Now.Made = false, true }
func stopping(c *Container) { c.Stopping = true }

func do(a Action, s v1alpha1.Stage) Step { return Step{Do: a, Stage: s} }

func report(s v1alpha1.Stage, why v1alpha1.Reason) Step {
	return Step{Do: ActReport, Stage: s, Reason: why}
}

func waits(s v1alpha1.Stage, why v1alpha1.Reason) Step { return Step{Stage: s, Reason: why} }

func (s Step) until(seconds float64) Step { s.Until = at(seconds); return s }
func (s Step) says(part string) Step      { s.Message = part; return s }
func (s Step) image(image string) Step    { s.Image = image; return s }
func (s Step) container(id string) Step   { s.ContainerID = id; return s }

// fresh is the deadline of a stage that was just entered.
const fresh = 100 + 1800
