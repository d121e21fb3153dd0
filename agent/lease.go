package agent

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"pitstop.dev/api/v1alpha1"
)

// VersionAnnotation is the annotation of the agent's Lease that says its version.
const VersionAnnotation = v1alpha1.GroupName + "/version"

// renewLease tells the cluster that this node has a live agent, four times per AgentLeaseDuration.
func (a *Agent) renewLease(ctx context.Context) {
	tick := a.cfg.Clock.NewTicker(v1alpha1.AgentLeaseDuration / 4)
	defer tick.Stop()
	for {
		if err := a.renewOnce(ctx); err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Error(err, "lease")
		}
		a.tidy(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
		}
	}
}

func (a *Agent) renewOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, v1alpha1.AgentLeaseDuration/4)
	defer cancel()
	leases := func() leaseRequest { return leaseRequest{a.api, a.cfg.Namespace} }
	lease, err := leases().get(ctx, v1alpha1.AgentLeaseName(a.cfg.NodeName))
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.AgentLeaseName(a.cfg.NodeName), Namespace: a.cfg.Namespace}}
		a.fill(lease)
		return leases().create(ctx, lease)
	}
	if err != nil {
		return err
	}
	a.fill(lease)
	return leases().update(ctx, lease)
}

func (a *Agent) fill(l *coordinationv1.Lease) {
	now := metav1.NewMicroTime(a.cfg.Clock.Now())
	if ptr.Deref(l.Spec.HolderIdentity, "") != a.cfg.Identity {
		l.Spec.AcquireTime = &now
	}
	l.Spec.HolderIdentity = &a.cfg.Identity
	l.Spec.LeaseDurationSeconds = ptr.To(int32(v1alpha1.AgentLeaseDuration / time.Second))
	l.Spec.RenewTime = &now
	metav1.SetMetaDataAnnotation(&l.ObjectMeta, VersionAnnotation, a.cfg.Version)
	metav1.SetMetaDataAnnotation(&l.ObjectMeta, v1alpha1.AnnotationAgentProtocol, strconv.Itoa(v1alpha1.AgentProtocol))
}

type leaseRequest struct {
	api       *apiServer
	namespace string
}

func (r leaseRequest) get(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	var l coordinationv1.Lease
	if err := r.api.coordination.Get().Namespace(r.namespace).Resource("leases").Name(name).Do(ctx).Into(&l); err != nil {
		return nil, fmt.Errorf("read lease %s: %w", name, err)
	}
	return &l, nil
}

func (r leaseRequest) create(ctx context.Context, l *coordinationv1.Lease) error {
	if err := r.api.coordination.Post().Namespace(r.namespace).Resource("leases").Body(l).Do(ctx).Error(); err != nil {
		return fmt.Errorf("create lease %s: %w", l.Name, err)
	}
	return nil
}

func (r leaseRequest) update(ctx context.Context, l *coordinationv1.Lease) error {
	if err := r.api.coordination.Put().Namespace(r.namespace).Resource("leases").Name(l.Name).Body(l).Do(ctx).Error(); err != nil {
		return fmt.Errorf("renew lease %s: %w", l.Name, err)
	}
	return nil
}
