package pods

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
)

// Where the registry wants credentials for an image, kubelet has to bring it: the agent reads no Secrets. A
// pin Pod on the node has the image as a volume, so that kubelet pulls it with the Pod's pull secrets, and its
// collector counts it as used. It is kept for as long as an open update in place wants the image for a Pod on the
// node: until the update is closed the image is used by no container that is certain to stay, from then on by the
// Pod's own.
//
// It is made when an agent says that it may not pull; and for each Pod that has pull secrets. Such a Pod may find the
// image on its node, brought with the Secret of another: kubelet then asks the registry for the Pod's own credentials
// before it starts the container, and by that time the old one is gone (Kubernetes 1.35,
// KubeletEnsureSecretPulledImages). A pin Pod that runs is kubelet's word that they are good.

// pinAgain is how long a pin Pod that kubelet has put an end to stays: it tells why, and keeps the next from
// being made at once.
const pinAgain = time.Minute

// pinSilence is how long kubelet may say nothing of a pin Pod whose image is on the node: a kubelet that knows no image
// volumes makes nothing of it, and says nothing.
const pinSilence = 2 * time.Minute

// A Pin is a pin Pod that the group owns.
type Pin struct {
	Name    string
	UID     types.UID
	Created time.Time
	// Deleting: the Pod has a deletionTimestamp. Ended: its phase is final.
	Deleting, Ended bool
	// Running: its container runs, so that kubelet has the image and takes the credentials for good.
	Running bool
	// Stray: it has lost its label, so that caches do not show it.
	Stray bool
	// Fault says what keeps it from bringing its image, and Message says it in kubelet's words.
	Fault   PinFault
	Message string
}

// PinFault is what keeps a pin Pod from bringing its image.
type PinFault string

// The faults of a pin Pod.
const (
	// PinFine: nothing is known to do so.
	PinFine PinFault = ""
	// PinNotFound: the registry has no such image.
	PinNotFound PinFault = "NotFound"
	// PinDenied: the registry does not take the credentials, or there are none.
	PinDenied PinFault = "Denied"
	// PinNoVolume: the API server has left the volume out, which it does not know.
	PinNoVolume PinFault = "NoVolume"
	// PinUnable: the Pod does not come so far as to want the image: its node has no room, or its runtime no image
	// volumes, or what it runs cannot be had.
	PinUnable PinFault = "Unable"
	// PinOther: something else about the image; the message says what.
	PinOther PinFault = "Other"
)

// NewPin says which pin Pod to make.
type NewPin struct {
	// Like is the Pod of whose node, pull secrets, service account and tolerations it is.
	Like, LikeUID string
	Image         string
	// Units are those whose updates wait for it.
	Units []string
}

// PinPrefix begins the names of the pin Pods of a group. No Pod of a role has such a name: it ends in two numbers.
func PinPrefix(group string) string { return group + "-pin-" }

// pinName is the name of the pin Pod that brings an image to the node of a Pod. It follows from what the pin Pod is
// like, so that one that was made just before a restart is found.
func (d *decision) pinName(p Pod, image string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{string(d.s.Group.UID), p.Node, image, p.Credentials}, "\x00")))
	return PinPrefix(d.s.Group.Name) + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}

// tidyPins deletes the pin Pods that no open update wants, and those that have come to an end.
func (d *decision) tidyPins() {
	if len(d.pins) == 0 {
		return
	}
	wanted, known := d.wantedPins()
	for _, p := range d.s.Pins {
		over := p.Stray || p.Ended && d.due(p.Created.Add(pinAgain))
		if !p.Deleting && (over || known && !wanted[p.Name]) {
			d.do(Action{Kind: DeletePin, Name: p.Name, UID: p.UID})
		}
	}
}

// wantedPins are the names of the pin Pods that open updates want. They are not known while a target cannot be read.
// An attempt that is to begin later wants none: it is then made anew, and kubelet pulls without a pause.
func (d *decision) wantedPins() (names map[string]bool, known bool) {
	names = map[string]bool{}
	if d.s.Group.Deleting {
		return names, true
	}
	for n := range d.s.Group.Spec.Updates {
		u := &d.s.Group.Spec.Updates[n]
		if u.Method != v1alpha1.UnitInPlace || d.waits(u) {
			continue
		}
		target, ok := d.s.Revisions[u.Target]
		if !ok {
			return nil, false
		}
		for _, i := range d.members(u) {
			for _, p := range i.pods {
				for _, image := range target[i.role].images(p.Index) {
					if p.Node != "" && !p.Deleting && !p.Ended {
						names[d.pinName(p, image)] = true
					}
				}
			}
		}
	}
	return names, true
}

// waits reports whether the attempt is not to begin yet.
func (d *decision) waits(u *v1alpha1.UnitUpdate) bool {
	return u.NotBefore != nil && !u.Permit.Allows(v1alpha1.PermitSwap) && !d.due(u.NotBefore.Time)
}

// reported is a standing for which the agent gives the reason. Where it may not pull, pin Pods do: then what they
// wait for is the reason.
func (d *decision) reported(stage v1alpha1.UnitStage, u *v1alpha1.UnitUpdate, i *instance, p Pod) standing {
	o, _ := d.order(p)
	at := gives(stage, p, o)
	if o.Reason != v1alpha1.WaitingUnauthorized {
		return at
	}
	var worst standing
	for _, c := range d.change(u, i, p, u.Permit).Containers {
		one := d.pinned(stage, u, p, c.Image)
		if worst.stage == "" || rankPin(one) > rankPin(worst) {
			worst = one
		}
	}
	if worst.stage == "" {
		return at
	}
	return worst
}

// ended is the standing of an attempt that the agent has ended. Where it has waited for a pin Pod for too long it does
// not know what kept that.
func (d *decision) ended(u *v1alpha1.UnitUpdate, i *instance, p Pod) standing {
	o, _ := d.order(p)
	at := gives(v1alpha1.UnitRefused, p, o)
	if o.Reason != v1alpha1.RefusedDeadline || len(d.pins) == 0 {
		return at
	}
	for _, c := range d.change(u, i, p, u.Permit).Containers {
		if pin := d.pins[d.pinName(p, c.Image)]; pin.Fault != PinFine {
			at.message += "; pin Pod " + pin.Name + ": " + pin.Fault.way() + ": " + pin.Message
		}
	}
	return at
}

// trusted is how far kubelet's word is that it will start the Pod's new images with the Pod's own pull secrets. Where
// it has no way to say so, what the agent has proved is all that can be known: so where no pin Pod can run, which is no
// fault of the image.
func (d *decision) trusted(u *v1alpha1.UnitUpdate, i *instance, p Pod) standing {
	at := standing{stage: v1alpha1.UnitPrepared}
	if !p.PullSecrets || d.s.NoImageVolumes {
		return at
	}
	for _, c := range d.change(u, i, p, v1alpha1.PermitPrepare).Containers {
		if !d.spoken(d.pins[d.pinName(p, c.Image)]) {
			at = least(at, d.pinned(v1alpha1.UnitPreparing, u, p, c.Image))
		}
	}
	return at
}

// spoken reports whether nothing more is to be awaited of a pin Pod whose image the agent has proved.
func (d *decision) spoken(pin Pin) bool {
	switch {
	case pin.Running, pin.Fault == PinNoVolume, pin.Fault == PinUnable:
		return true
	case pin.Name == "" || pin.Fault != PinFine || pin.Deleting || pin.Stray:
		return false
	}
	return d.due(pin.Created.Add(pinSilence))
}

// rankPin orders what pin Pods of one Pod say: what is over goes first, then what fails.
func rankPin(s standing) int {
	switch {
	case s.stage == v1alpha1.UnitRefused:
		return 2
	case s.reason == v1alpha1.UnitPinFails:
		return 1
	}
	return 0
}

// pinned is how far the pin Pod is that brings the image to the node of a Pod. One that is missing is made.
func (d *decision) pinned(stage v1alpha1.UnitStage, u *v1alpha1.UnitUpdate, p Pod, image string) standing {
	name := d.pinName(p, image)
	text := func(reason v1alpha1.UnitReason, says string) standing {
		return standing{stage: stage, reason: reason, message: fmt.Sprintf("Pod %s on node %s: image %s needs the Pod's pull secrets: pin Pod %s %s", p.Name, p.Node, image, name, says)}
	}
	pin, exists := d.pins[name]
	switch {
	case !exists:
		d.makePin(name, u, p, image)
		return text(v1alpha1.UnitWaitingPin, "is made, for kubelet to pull it with the Pod's pull secrets")
	case pin.Deleting || pin.Stray:
		return text(v1alpha1.UnitWaitingPin, "of before is not gone yet")
	case pin.Fault == PinFine:
		return text(v1alpha1.UnitWaitingPin, "has kubelet pull it with the Pod's pull secrets")
	case pin.Fault == PinNotFound:
		at := text(v1alpha1.UnitReason(v1alpha1.RefusedNotFound), "has the credentials, and does not find it: "+pin.Message)
		at.stage = v1alpha1.UnitRefused
		return at
	}
	at := text(v1alpha1.UnitPinFails, "cannot bring it; "+pin.Fault.way()+": "+pin.Message)
	d.block(v1alpha1.BlockedPin, unitWords(u.Unit)+" waits: "+at.message)
	return at
}

// way is what to do about the fault.
func (f PinFault) way() string {
	switch f {
	case PinDenied:
		return "correct the Secrets that the Pod's imagePullSecrets name"
	case PinNoVolume:
		return "the cluster has no image volumes, as Kubernetes 1.36 or later has: preload the image on the node"
	case PinFine, PinNotFound, PinUnable, PinOther:
	}
	return "see `kubectl describe pod`, or preload the image on the node"
}

// makePin has a pin Pod made, once, for all units that wait for it.
func (d *decision) makePin(name string, u *v1alpha1.UnitUpdate, p Pod, image string) {
	for n := range d.makePins {
		if one := &d.makePins[n]; one.Name == name {
			if !slices.Contains(one.Pin.Units, u.Unit) {
				one.Pin.Units = append(one.Pin.Units, u.Unit)
			}
			return
		}
	}
	made := NewPin{Like: p.Name, LikeUID: string(p.UID), Image: image, Units: []string{u.Unit}}
	d.makePins = append(d.makePins, Action{Kind: CreatePin, Name: name, Pin: made})
}

// pinNames are the names of the pin Pods that there are, or are made now.
func (d *decision) pinNames() []string {
	var out []string
	for _, p := range d.s.Pins {
		out = append(out, p.Name)
	}
	for _, a := range d.makePins {
		out = append(out, a.Name)
	}
	slices.SortFunc(out, cmp.Compare[string])
	return slices.Compact(out[:min(len(out), maxPins)])
}
