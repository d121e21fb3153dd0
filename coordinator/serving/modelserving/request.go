package modelserving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/coordinator/plan"
)

// maxAnswer is the API server's limit on the message of an answer.
const maxAnswer = 1024

// requests are what people asked for by annotations and is not answered yet, and what was accepted and may not
// have been begun. Of one verb the earlier request goes first.
func (p *pass) requests() []plan.Request {
	var out []plan.Request
	for _, verb := range v1alpha1.Verbs() {
		last := p.lastRequest(verb)
		if last != nil && last.Outcome == v1alpha1.RequestAccepted {
			out = append(out, plan.Request{Verb: verb, ID: last.ID, Unit: last.Unit, Accepted: true})
			continue
		}
		value, asked := p.ms.Annotations[verb.Annotation()]
		if id, unit, ok := v1alpha1.ParseRequest(value); asked && (last == nil || last.ID != id) {
			out = append(out, plan.Request{Verb: verb, ID: id, Unit: unit, Malformed: !ok})
		}
	}
	return out
}

func (p *pass) lastRequest(verb v1alpha1.Verb) *v1alpha1.RequestStatus {
	if i := p.indexOf(p.ms.Status.Requests, verb); i >= 0 {
		return &p.ms.Status.Requests[i]
	}
	return nil
}

func (p *pass) indexOf(answers []v1alpha1.RequestStatus, verb v1alpha1.Verb) int {
	return slices.IndexFunc(answers, func(r v1alpha1.RequestStatus) bool { return r.Verb == verb })
}

// answered puts the plan's answers into the status. What was accepted has begun once all actions were taken.
func (p *pass) answered(st *v1alpha1.ModelServingStatus) {
	for _, a := range p.decided.Report.Answers {
		is := v1alpha1.RequestStatus{
			Verb: a.Verb, ID: a.ID, Unit: a.Unit, Outcome: a.Outcome, Message: cut(a.Message, maxAnswer),
			Answered: metav1.NewTime(p.now).Rfc3339Copy(),
		}
		i := p.indexOf(st.Requests, a.Verb)
		if i < 0 {
			i, st.Requests = len(st.Requests), append(st.Requests, is)
		}
		if was := st.Requests[i]; was.ID == is.ID && is.Outcome != v1alpha1.RequestRefused {
			is.Answered, is.Message = was.Answered, was.Message
		}
		if is.Outcome == v1alpha1.RequestAccepted && p.acted {
			is.Outcome = v1alpha1.RequestBegun
		}
		st.Requests[i] = is
	}
}

// errForgets reports an API server that does not keep answers: a request would be done again and again.
var errForgets = errors.New("status.requests is not kept: the CustomResourceDefinition of ModelServings is older than this coordinator, apply that of its version")

// record writes the answers before anything follows from them. It is written even if they are known: the answer
// of the API server proves that what was read is what there is.
func (p *pass) record(ctx context.Context) (bool, error) {
	ms := p.reported()
	for _, a := range p.decided.Report.Answers {
		if a.Verb == v1alpha1.VerbRetry && a.Outcome == v1alpha1.RequestAccepted {
			ms.Status.RejectedRevision = ""
		}
	}
	was := p.ms.Status
	if err := p.replaceStatus(ctx, ms); err != nil {
		return false, err
	}
	p.tell(was)
	for _, a := range p.decided.Report.Answers {
		if last := p.lastRequest(a.Verb); last == nil || last.ID != a.ID {
			return false, errForgets
		}
	}
	return true, nil
}

// dropRequests removes the annotations of requests whose answers are stored.
func (p *pass) dropRequests(ctx context.Context) error {
	drop := map[string]any{}
	for _, verb := range v1alpha1.Verbs() {
		value, asked := p.ms.Annotations[verb.Annotation()]
		id, _, _ := v1alpha1.ParseRequest(value)
		if last := p.lastRequest(verb); asked && last != nil && last.ID == id {
			drop[verb.Annotation()] = nil
		}
	}
	if len(drop) == 0 {
		return nil
	}
	// No more than that is named, as a coordinator that is older than the type would lose what it does not know.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": p.ms.UID, "resourceVersion": p.ms.ResourceVersion, "annotations": drop,
	}})
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	ms := p.ms.DeepCopy()
	if err := p.Client.Patch(ctx, ms, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("remove the annotations of requests: %w", gone(err))
	}
	p.ms = ms
	return nil
}
