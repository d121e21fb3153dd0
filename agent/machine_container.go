package agent

import (
	"slices"
	"time"

	"pitstop.dev/api/v1alpha1"
)

// ProofState says how far the proof of an image is.
type ProofState string

// The states of a proof.
const (
	// ProofUnknown: the runtime did not answer.
	ProofUnknown ProofState = ""
	// ProofMissing: the image is not on the node, and nothing is done about it yet.
	ProofMissing ProofState = "Missing"
	// ProofPending: it is being pulled, or the pull is to be tried again; see Why.
	ProofPending ProofState = "Pending"
	// ProofRefused: it cannot be had or is of no use here; see Why.
	ProofRefused ProofState = "Refused"
	// Proved: it is on the node, for this platform, under the id given.
	Proved ProofState = "Proved"
)

// A Proof is what is known of one image on this node.
type Proof struct {
	State   ProofState
	ID      string
	Why     v1alpha1.Reason
	Message string
	RetryAt time.Time
}

// A Container is one container of the Pod: what the spec says, what the order wants and what
// the runtime runs.
type Container struct {
	Name           string
	Regular        bool
	PullAlways     bool
	RestartsAlways bool
	// SpecImage is the image in the Pod's spec, SpecHash kubelet's hash for it and SpecProof
	// what the node has of it. Only where the image may be this update's: see Want.
	SpecImage string
	SpecHash  string
	SpecProof Proof
	// Want is the image that the order asks for; empty for a container that stays as it is.
	Want      string
	WantProof Proof
	// Stored is the image that the API server stored with this attempt's patch; empty if that is
	// not known.
	Stored string
	// Before is the container of the baseline; its ID is empty if there was none.
	Before Baseline
	// Prior are the ids of all baselines since the Pod was last in service.
	Prior []string
	// Now is the newest container that the runtime knows; its ID is empty if there is none.
	Now Running
	// Crashes and Peer count restarts since the baseline that nobody planned.
	Crashes int32
	Peer    int32
	// Retried: its first start is known to have failed for want of GPU memory. The restart after it is planned.
	Retried bool
	// Starved: it has just been found out to have.
	Starved bool
	// Stopping is true while a kill of Now is under way or was just tried.
	Stopping bool
	// Killed is when this process first tried to kill Now; zero if it did not.
	Killed time.Time
}

// A Baseline is what a container was when the Pod was drained.
type Baseline struct {
	ID      string
	ImageID string
	Image   string
}

// Running is one container of the runtime.
type Running struct {
	ID      string
	Made    bool // it exists and was not started yet
	Up      bool // it runs
	Hash    string
	ImageID string
}

// nothingToSwap reports whether the spec already has every image that is wanted.
func (u Update) nothingToSwap() bool {
	return !slices.ContainsFunc(u.Containers, func(c Container) bool { return c.Want != "" && c.Want != c.SpecImage })
}

// wholeAtSpec reports whether every regular container runs what the spec says.
func (u Update) wholeAtSpec() bool {
	return !slices.ContainsFunc(u.Containers, func(c Container) bool {
		return c.Regular && (!c.Now.Up || c.Now.Hash != c.SpecHash)
	})
}

// kubeletBehind reports whether kubelet has not yet acted on a patch of an attempt before. A container that was
// made for other images, and not started yet, will be: kubelet may begin to end it at any time.
func (u Update) kubeletBehind() bool {
	return u.swapOpen() && slices.ContainsFunc(u.Containers, func(c Container) bool {
		return c.Regular && (c.Now.Up || c.Now.Made) && c.Now.Hash != c.SpecHash
	})
}

// inBaseline reports whether the running container is older than the present swap.
func (c Container) inBaseline() bool {
	return c.Now.ID == c.Before.ID || slices.Contains(c.Prior, c.Now.ID)
}

// old reports whether c still runs what it ran before the latest patch.
func (c Container) old() bool { return c.Regular && c.Now.Up && c.Now.Hash != c.SpecHash }
