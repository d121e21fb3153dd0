//go:build lab

package deploy_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"pitstop.dev/api/v1alpha1"
	"pitstop.dev/test/lab"
	"pitstop.dev/test/lab/await"
)

func ordersClient(c *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c = rest.CopyConfig(c)
	c.APIPath, c.GroupVersion = "/apis", &v1alpha1.GroupVersion
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(c)
}

// orderFor is an order for a Pod of node1, after change.
func orderFor(pod string, change func(*v1alpha1.InPlaceUpdateSpec)) *v1alpha1.InPlaceUpdate {
	u := &v1alpha1.InPlaceUpdate{
		ObjectMeta: metav1.ObjectMeta{Name: pod},
		Spec: v1alpha1.InPlaceUpdateSpec{
			PodUID: "9b9e1d5c-6f5c-4ee4-9d3e-4a7b5d1c0c11", NodeName: node1, Attempt: 1,
			Containers: []v1alpha1.ContainerImage{{Name: "engine", Image: "engine:2"}},
		},
	}
	change(&u.Spec)
	return u
}

// order makes such an order.
func (c client) order(ctx context.Context, pod string, change func(*v1alpha1.InPlaceUpdateSpec)) (*v1alpha1.InPlaceUpdate, error) {
	var out v1alpha1.InPlaceUpdate
	err := c.orders.Post().Namespace(apps).Resource("inplaceupdates").Body(orderFor(pod, change)).Do(ctx).Into(&out)
	return &out, err
}

// reorder changes the spec of an order, or with sub "status" its report.
func (c client) reorder(ctx context.Context, u *v1alpha1.InPlaceUpdate, sub string, change func(*v1alpha1.InPlaceUpdate)) error {
	var live v1alpha1.InPlaceUpdate
	if err := c.orders.Get().Namespace(apps).Resource("inplaceupdates").Name(u.Name).Do(ctx).Into(&live); err != nil {
		return err
	}
	change(&live)
	put := c.orders.Put().Namespace(apps).Resource("inplaceupdates").Name(u.Name)
	if sub != "" {
		put = put.SubResource(sub)
	}
	return put.Body(&live).Do(ctx).Error()
}

// grant lets a user do what the rules say in the namespace of the Pods.
func grant(ctx context.Context, t *testing.T, user rbacv1.Subject, rules ...rbacv1.PolicyRule) {
	t.Helper()
	role := must(plane.admin.RbacV1().Roles(apps).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Rules: rules,
	}, metav1.CreateOptions{}))(t)
	must(plane.admin.RbacV1().RoleBindings(apps).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{user},
	}, metav1.CreateOptions{}))(t)
}

func named(user string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}
}

// mayOrder is what the role pitstop-edit adds to the role edit, with reading.
func mayOrder(ctx context.Context, t *testing.T) rbacv1.PolicyRule {
	t.Helper()
	edit := must(plane.admin.RbacV1().ClusterRoles().Get(ctx, "pitstop-edit", metav1.GetOptions{}))(t)
	rule := edit.Rules[0]
	rule.Verbs = append(rule.Verbs, "get")
	return rule
}

// granted waits until the authorizer has seen that the user may give orders, and patch the Pod of
// that name where one is given.
func granted(ctx context.Context, t *testing.T, c client, pod string) {
	t.Helper()
	want := []authorizationv1.ResourceAttributes{
		{Namespace: apps, Verb: "create", Group: v1alpha1.GroupName, Resource: "inplaceupdates"},
	}
	if pod != "" {
		want = append(want, authorizationv1.ResourceAttributes{Namespace: apps, Verb: "patch", Resource: "pods", Name: pod})
	}
	err := await.Until(ctx, "rights", 30*time.Second, func(ctx context.Context) error {
		for _, attributes := range want {
			review, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes},
			}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			if !review.Status.Allowed {
				return fmt.Errorf("not granted: %+v", attributes)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func same(*v1alpha1.InPlaceUpdateSpec) {}

func TestAnOrderNeedsTheRightToPatchThePod(t *testing.T) {
	ctx := t.Context()
	mine := must(plane.admin.pod(ctx, "mine", func(*corev1.Pod) {}))(t)
	other := must(plane.admin.pod(ctx, "other", func(*corev1.Pod) {}))(t)

	grant(ctx, t, named("alice"), mayOrder(ctx, t),
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"patch"}, ResourceNames: []string{mine.Name}})
	grant(ctx, t, named("bob"), mayOrder(ctx, t),
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "update", "delete"}})
	alice, bob := as(t, "alice"), as(t, "bob")
	granted(ctx, t, alice, mine.Name)
	granted(ctx, t, bob, "")

	_, err := bob.order(ctx, mine.Name, same)
	denied(t, err, "bob may not patch pod "+mine.Name)
	_, err = alice.order(ctx, other.Name, same)
	denied(t, err, "alice may not patch pod "+other.Name)
	u, err := alice.order(ctx, mine.Name, same)
	denied(t, err, "")

	again := func(u *v1alpha1.InPlaceUpdate) { u.Spec.Attempt++; u.Spec.Containers[0].Image += ".1" }
	denied(t, bob.reorder(ctx, u, "", again), "bob may not patch pod "+mine.Name)
	denied(t, alice.reorder(ctx, u, "", again), "")
	denied(t, bob.reorder(ctx, u, "", func(u *v1alpha1.InPlaceUpdate) { u.Annotations = map[string]string{"x": "y"} }), "")
	denied(t, bob.reorder(ctx, u, "status", func(u *v1alpha1.InPlaceUpdate) { u.Status.Stage = v1alpha1.StageInService }), "cannot update")
	denied(t, bob.orders.Delete().Namespace(apps).Resource("inplaceupdates").Name(u.Name).Do(ctx).Error(), "")

	generated := &v1alpha1.InPlaceUpdate{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}, Spec: u.Spec}
	denied(t, bob.orders.Post().Namespace(apps).Resource("inplaceupdates").Body(generated).Do(ctx).Error(), "bob may not patch pod x-")
}

func TestOrdersForServingGroupsAreTheCoordinators(t *testing.T) {
	ctx := t.Context()
	const name = "pitstop-coordinator"
	coordinator := must(account(ctx, lab.Account{Namespace: system, Name: name}))(t)
	granted(ctx, t, coordinator, "")
	ofGroup := func(s *v1alpha1.InPlaceUpdateSpec) { s.ServingGroupUID, s.Permit = "g", v1alpha1.PermitPrepare }
	further := func(u *v1alpha1.InPlaceUpdate) { u.Spec.Permit = v1alpha1.PermitDrain }

	_, err := plane.admin.order(ctx, "of-group", ofGroup)
	denied(t, err, "given by the coordinator only")
	u, err := coordinator.order(ctx, "of-group", ofGroup)
	denied(t, err, "")
	denied(t, plane.admin.reorder(ctx, u, "", further), "given by the coordinator only")
	denied(t, coordinator.reorder(ctx, u, "", further), "")
	denied(t, plane.admin.reorder(ctx, u, "", func(u *v1alpha1.InPlaceUpdate) { u.Finalizers = []string{"example.com/f"} }), "")
	denied(t, plane.admin.reorder(ctx, u, "", func(u *v1alpha1.InPlaceUpdate) { u.Spec.ServingGroupUID = "" }), "servingGroupUID")

	// An account of that name in another namespace is another account.
	must(plane.admin.CoreV1().ServiceAccounts(apps).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
	grant(ctx, t, rbacv1.Subject{Kind: "ServiceAccount", Name: name, Namespace: apps}, mayOrder(ctx, t))
	impostor := must(account(ctx, lab.Account{Namespace: apps, Name: name}))(t)
	granted(ctx, t, impostor, "")
	_, err = impostor.order(ctx, "of-group-2", ofGroup)
	denied(t, err, "given by the coordinator only")
}
