package certificate

import (
	"bytes"
	"slices"
	"time"
)

// State is what the Secret holds.
type State struct {
	// Current is served; Next is served once API servers trust its authority. Nil where there is
	// none that is usable.
	Current, Next *Pair
	// Previous is the authority of the certificate before Current, which replicas may still serve.
	Previous []byte
}

// Keys of the Secret. The first three are those of Kubernetes' own TLS Secrets.
const (
	keyAuthority     = "ca.crt"
	keyCert          = "tls.crt"
	keyKey           = "tls.key"
	keyNextAuthority = "next.ca.crt"
	keyNextCert      = "next.tls.crt"
	keyNextKey       = "next.tls.key"
	keyPrevious      = "previous.ca.crt"
)

// decodeState reads a Secret. What is damaged counts as absent: it is made anew.
func decodeState(data map[string][]byte) State {
	var s State
	if p, err := parsePair(data[keyAuthority], data[keyCert], data[keyKey]); err == nil {
		s.Current = p
	}
	if p, err := parsePair(data[keyNextAuthority], data[keyNextCert], data[keyNextKey]); err == nil {
		s.Next = p
	}
	s.Previous, _ = authorities(data[keyPrevious])
	return s
}

func (s State) encode() map[string][]byte {
	data := map[string][]byte{}
	if s.Current != nil {
		data[keyAuthority], data[keyCert], data[keyKey] = s.Current.Authority, s.Current.Cert, s.Current.Key
	}
	if s.Next != nil {
		data[keyNextAuthority], data[keyNextCert], data[keyNextKey] = s.Next.Authority, s.Next.Cert, s.Next.Key
	}
	if len(s.Previous) > 0 {
		data[keyPrevious] = s.Previous
	}
	return data
}

// bundle is what API servers are to trust: the authorities of all certificates that a replica may
// serve now or soon.
func (s State) bundle() []byte {
	out := slices.Clone(s.Previous)
	for _, p := range []*Pair{s.Current, s.Next} {
		if p != nil && !bytes.Contains(out, p.Authority) {
			out = append(out, p.Authority...)
		}
	}
	return out
}

// An Action is one write, or none.
type Action string

// The actions.
const (
	// Replace: nothing in the Secret can be served. A new Pair becomes Current at once.
	Replace Action = "Replace"
	// Prepare: Current comes to its end. A new Pair becomes Next.
	Prepare Action = "Prepare"
	// Publish: the bundle goes into the webhook configuration.
	Publish Action = "Publish"
	// Promote: Next becomes Current.
	Promote Action = "Promote"
	// Wait: nothing is to be done before Step.Until.
	Wait Action = "Wait"
)

// A Step is what to do now.
type Step struct {
	Action Action
	// Until is set with Wait.
	Until time.Time
}

// An Observation is what a Step follows from.
type Observation struct {
	State State
	// Bundles are those of the webhook configuration, one for each of its webhooks.
	Bundles [][]byte
	// Published is since when this process has seen the configuration as it is now, without
	// interruption; zero if it has not yet. Only then have API servers learnt of it for sure.
	Published time.Time
}

// Rules are the times that a Step keeps to.
type Rules struct {
	// DNSNames are those under which API servers call.
	DNSNames []string
	// Propagation is how long API servers may take to learn of a new bundle.
	Propagation time.Duration
}

// Next returns the one step that leads on. Each write is complete in itself, so a replica that dies
// after it, or another one that runs into the conflict, goes on from there:
//
//	(nothing) -Replace-> current -Publish-> served ... -Prepare-> +next -Publish-> trusted -Promote-> current
func Next(o Observation, r Rules, now time.Time) Step {
	s := o.State
	switch {
	case !s.Current.usable(r.DNSNames, now) && s.Next.usable(r.DNSNames, now):
		return Step{Action: Promote}
	case !s.Current.usable(r.DNSNames, now):
		return Step{Action: Replace}
	case slices.ContainsFunc(o.Bundles, func(b []byte) bool { return !bytes.Equal(b, s.bundle()) }):
		return Step{Action: Publish}
	case now.Before(s.Current.due()):
		return Step{Action: Wait, Until: s.Current.due()}
	case !s.Next.usable(r.DNSNames, now):
		return Step{Action: Prepare}
	case o.Published.IsZero() || now.Before(o.Published.Add(r.Propagation)):
		return Step{Action: Wait, Until: now.Add(r.Propagation)}
	default:
		return Step{Action: Promote}
	}
}

// apply returns the State after a step, fresh being the Pair that Replace and Prepare bring in.
func (s State) apply(a Action, fresh *Pair) State {
	var previous []byte
	if s.Current != nil {
		previous = s.Current.Authority
	}
	switch a {
	case Replace:
		return State{Current: fresh, Previous: previous}
	case Prepare: // nobody has served what came before Current for months
		return State{Current: s.Current, Next: fresh}
	case Promote:
		return State{Current: s.Next, Previous: previous}
	case Publish, Wait:
	}
	return s
}
