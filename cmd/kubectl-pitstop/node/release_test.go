package node

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/cmd/kubectl-pitstop/diagnose"
	"pitstop.dev/cmd/kubectl-pitstop/order"
)

// releasing are the facts of a node with a live agent and no update, whose annotation has this value.
func releasing(value string) ReleaseFacts {
	n := node("True", "Healthy", "2 GPUs")
	if value != "" {
		n.Annotations = map[string]string{v1alpha1.AnnotationGPURelease: value}
	}
	return ReleaseFacts{Node: n, Agent: diagnose.Agent{State: diagnose.AgentAlive}, Now: now()}
}

func (f ReleaseFacts) with(stage v1alpha1.Stage) ReleaseFacts {
	u := update("engine-" + strings.ToLower(string(stage)))
	u.Status.Stage = stage
	f.Orders = append(f.Orders, u)
	return f
}

// of makes the latest update one of a unit of several Pods, or one by hand of a Pod that opens with ready containers.
func (f ReleaseFacts) of(group types.UID, permit v1alpha1.Permit) ReleaseFacts {
	u := f.Orders[len(f.Orders)-1]
	u.Spec.ServingGroupUID, u.Spec.Permit, u.Spec.OpenAt = group, permit, v1alpha1.OpenAtVerified
	u.Spec.Containers = []v1alpha1.ContainerImage{{Name: "engine", Image: "vllm:2"}}
	return f
}

func TestAReleaseSaysWhatComesOfIt(t *testing.T) {
	elsewhere := releasing("").with(v1alpha1.StageSwapping)
	elsewhere.Orders[0].Spec.NodeName = "gpu-1"
	const draining, drained = v1alpha1.StageDraining, v1alpha1.StageDrained
	alone := releasing("").with(drained).of("group", v1alpha1.PermitServe)
	alone.Orders[0].Spec.OpenAt = v1alpha1.OpenAtProved
	mere := releasing("").with(drained).of("group", v1alpha1.PermitDrain)
	mere.Orders[0].Spec.Containers = nil
	before := releasing("").with(drained).of("group", v1alpha1.PermitDrain)
	before.Orders[0].Spec.Attempt = 2
	unread := releasing("")
	unread.OrdersUnknown, unread.Agent.State = true, diagnose.AgentUnknown
	for name, r := range map[string]struct {
		facts ReleaseFacts
		warns []string
	}{
		"nothing stands against it":      {releasing(""), nil},
		"a time that is past is nothing": {releasing("2026-01-02T03:00:00Z"), nil},
		"no time is nothing":             {releasing("garbage"), nil},
		"the one before was longer":      {releasing("2026-01-02T03:50:00Z"), []string{"shorter than what was asked for before, which was until 2026-01-02T03:50:00Z"}},
		"the one before was shorter":     {releasing("2026-01-02T03:10:00Z"), []string{"longer than what was asked for before, which was until 2026-01-02T03:10:00Z"}},
		"the one before was the same":    {releasing("2026-01-02T03:14:00Z"), nil},
		"swaps lose their verdict": {
			releasing("").with(v1alpha1.StageSwapping).with(v1alpha1.StageProved),
			[]string{"its verdict will be Unknown: prod/engine-proved (Proved), prod/engine-swapping (Swapping)"},
		},
		"a unit that is not swapped yet is given back": {
			releasing("").with(drained).of("group", v1alpha1.PermitDrain).with(draining).of("group", v1alpha1.PermitDrain),
			[]string{"go back in service as they were, and are updated once the driver is taken again"},
		},
		"a Pod whose swap is permitted stays out of traffic": {
			releasing("").with(drained).of("group", v1alpha1.PermitSwap),
			[]string{"these Pods stay out of traffic, and their swap waits until the driver is taken again; one that waits past its deadline is refused: prod/engine-drained (Drained)"},
		},
		"so does one that a person has drained": {
			releasing("").with(draining).of("", v1alpha1.PermitServe), []string{"these Pods stay out of traffic"},
		},
		"each is said of its own": {
			releasing("").with(draining).of("group", v1alpha1.PermitDrain).with(drained).of("group", v1alpha1.PermitSwap).with(v1alpha1.StageSwapping),
			[]string{"Unknown: prod/engine-swapping", "is refused: prod/engine-drained", "until then: prod/engine-draining"},
		},
		"a Pod that is alone serves again":               {alone, nil},
		"a mere drain goes on":                           {mere, nil},
		"what was reported of an attempt before is over": {before, nil},
		"updates before and after that lose nothing": {
			releasing("").with(v1alpha1.StagePrepared).with(v1alpha1.StageVerified).with(v1alpha1.StageInService).with(v1alpha1.StageFailed), nil,
		},
		"updates of other nodes lose nothing": {elsewhere, nil},
		"what could not be read is said":      {unread, []string{"its Lease could not be read", "InPlaceUpdates could not be read"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := PlanRelease(r.facts, 10*time.Minute)
			if err != nil || !got.Write || got.Until != "2026-01-02T03:14:00Z" || !strings.Contains(got.Says, "until 2026-01-02T03:14:00Z") {
				t.Errorf("PlanRelease() = %+v, %v", got, err)
			}
			if !slices.EqualFunc(got.Warnings, r.warns, strings.Contains) {
				t.Errorf("warns %q, want %q", got.Warnings, r.warns)
			}
		})
	}
}

func TestNobodyIsAskedForAReleaseWhereNoAgentIs(t *testing.T) {
	f := releasing("")
	f.Agent.State = diagnose.AgentDead
	got, err := PlanRelease(f, time.Minute)
	if _, refused := errors.AsType[*order.RefusalError](err); !refused || got.Write {
		t.Errorf("PlanRelease() = %+v, %v", got, err)
	}
}

func TestTheEndOfAReleaseSaysWhatComesOfIt(t *testing.T) {
	dead := releasing("2026-01-02T03:10:00Z")
	dead.Agent.State = diagnose.AgentDead
	for name, r := range map[string]struct {
		facts ReleaseFacts
		write bool
		says  string
	}{
		"one that is under way ends":   {releasing("2026-01-02T03:10:00Z"), true, "takes the GPU driver again"},
		"there is none":                {releasing(""), false, "none to end"},
		"one that is over leaves":      {releasing("2026-01-02T03:00:00Z"), true, "no release of the GPU driver was under way"},
		"one that never was one":       {releasing("garbage"), true, "(garbage) is removed"},
		"nobody is there to follow it": {dead, true, "no agent is alive there"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := PlanEnd(r.facts); got.Write != r.write || got.Until != "" || !strings.Contains(got.Says, r.says) {
				t.Errorf("PlanEnd() = %+v", got)
			}
		})
	}
}

func TestTheAnnotationIsToldAsItIsTaken(t *testing.T) {
	for name, r := range map[string]struct{ value, mark, says string }{
		"nobody asks":            {"", "", ""},
		"a time to come":         {"2026-01-02T03:10:00Z", "  ", "is asked for until 2026-01-02T03:10:00Z"},
		"a time that is past":    {"2026-01-02T03:00:00Z", "  ", "ended at 2026-01-02T03:00:00Z"},
		"what is no time at all": {"garbage", "! ", `says "garbage", which is no time as RFC 3339: it is ignored`},
	} {
		t.Run(name, func(t *testing.T) {
			if mark, text := releaseText(r.value, now()); mark != r.mark || !strings.Contains(text, r.says) || (text == "") != (r.says == "") {
				t.Errorf("releaseText() = %q, %q", mark, text)
			}
		})
	}
}
