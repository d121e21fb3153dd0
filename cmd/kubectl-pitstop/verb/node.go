package verb

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pitstop.dev/agent/health/states"
	"pitstop.dev/cmd/kubectl-pitstop/diagnose"
	"pitstop.dev/cmd/kubectl-pitstop/node"
	"pitstop.dev/cmd/kubectl-pitstop/order"
)

const (
	// agentLabels select the Pods of the agent.
	agentLabels = "app.kubernetes.io/name=pitstop,app.kubernetes.io/component=agent"
	// agentPort is where the agent serves its states.
	agentPort = "9464"
	// agentTimeout bounds the question to the agent, which has its own checks to make.
	agentTimeout = 5 * time.Second
)

func newNode(c *cli) *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:   "node [NODE]",
		Short: "Show the GPUs of a node: who holds their memory, how they are, restarts",
		Long: "Show the GPUs of a node: who holds how much of their memory, how they are, the Pods that were given some, and the planned and " +
			"other restarts of these. Without a name one line for each node that has GPUs.\n\nWho holds memory says the agent of the node, " +
			"which is asked through the API server; without it the rest is shown.",
		Example: "  kubectl pitstop node\n  kubectl pitstop node gpu-0",
		Args:    cobra.MaximumNArgs(1),
	}
	addOutputFlag(cmd, &f)
	cmd.RunE = c.run(func(ctx context.Context, cl *cluster, args []string) error {
		if len(args) == 0 {
			return c.listNodes(ctx, cl, f)
		}
		return c.showNode(ctx, cl, args[0], f)
	})
	return cmd
}

func (c *cli) showNode(ctx context.Context, cl *cluster, name string, f format) error {
	o := node.Objects{Now: c.Clock.Now()}
	var err error
	if o.Node, err = cl.node(ctx, name); err != nil {
		return err
	}
	if o.Pods, err = cl.podsOf(ctx, name); err != nil {
		return err
	}
	if o.Orders, err = cl.updates(ctx, ""); err != nil {
		return err
	}
	if o.Agent, err = cl.askAgent(ctx, name); err != nil {
		o.Problem = err.Error()
	}
	v := node.See(o)
	if f == formatJSON {
		return printJSON(c.Streams.Out, v)
	}
	_, err = fmt.Fprint(c.Streams.Out, v.Text())
	return err
}

// A nodeList is what node prints as JSON if no name is given.
type nodeList struct {
	Items []node.View `json:"items"`
}

func (c *cli) listNodes(ctx context.Context, cl *cluster, f format) error {
	nodes, err := cl.nodes(ctx)
	if err != nil {
		return err
	}
	pods, err := cl.podsOf(ctx, "")
	if err != nil {
		return err
	}
	list := nodeList{Items: []node.View{}}
	for i := range nodes {
		if v := node.See(node.Objects{Node: &nodes[i], Pods: pods, Now: c.Clock.Now()}); v.HasGPUs() {
			list.Items = append(list.Items, v)
		}
	}
	slices.SortFunc(list.Items, func(a, b node.View) int { return strings.Compare(a.Node, b.Node) })
	switch {
	case f == formatJSON:
		return printJSON(c.Streams.Out, list)
	case len(list.Items) == 0:
		fmt.Fprintln(c.Streams.ErrOut, "no node is known to have GPUs")
		return nil
	}
	_, err = fmt.Fprint(c.Streams.Out, node.Table(list.Items))
	return err
}

// node returns the Node of this name, or an *order.RefusalError if there is none.
func (c *cluster) node(ctx context.Context, name string) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	n, err := c.Core.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, &order.RefusalError{Object: "node " + name, Why: "does not exist", Way: "list those there are with `kubectl get nodes`"}
	}
	return n, access{"get", corev1.Resource("nodes"), ""}.explain(err)
}

func (c *cluster) nodes(ctx context.Context) ([]corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := c.Core.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, access{"list", corev1.Resource("nodes"), ""}.explain(err)
	}
	return list.Items, nil
}

// podsOf returns the Pods of a node, or of all if name is empty.
func (c *cluster) podsOf(ctx context.Context, name string) ([]*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var o metav1.ListOptions
	if name != "" {
		o.FieldSelector = "spec.nodeName=" + name
	}
	list, err := c.Core.CoreV1().Pods("").List(ctx, o)
	if err != nil {
		return nil, access{"list", corev1.Resource("pods"), ""}.explain(err)
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return pods, nil
}

// askAgent asks the agent of a node how the node is, through the API server.
func (c *cluster) askAgent(ctx context.Context, name string) (*states.States, error) {
	ctx, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
	pods := c.Core.CoreV1().Pods(diagnose.LeaseNamespace)
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: agentLabels, FieldSelector: "spec.nodeName=" + name})
	if err != nil {
		return nil, fmt.Errorf("list pods in namespace %s: %w", diagnose.LeaseNamespace, err)
	}
	for _, p := range list.Items {
		if p.Spec.NodeName != name || p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil {
			continue
		}
		data, err := pods.ProxyGet("http", p.Name, agentPort, states.Path, nil).DoRaw(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		var s states.States
		if err := json.Unmarshal(data, &s); err != nil {
			return nil, fmt.Errorf("answer of pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		return &s, nil
	}
	return nil, fmt.Errorf("no Pod of the agent runs there (namespace %s)", diagnose.LeaseNamespace)
}
