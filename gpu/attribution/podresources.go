package attribution

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/utils/clock"
)

const (
	// kubeletSocket is in the folder of podresources. Kubelet makes it anew at every start.
	kubeletSocket = "kubelet.sock"
	// listEvery keeps far away from kubelet's limit of 100 requests a second for all its clients.
	listEvery = time.Second
	// listTimeout bounds one answer.
	listTimeout = 5 * time.Second
	// maxAnswer is the largest answer that is read, as of kubelet's own clients.
	maxAnswer = 16 << 20
	// draDriver is NVIDIA's driver of dynamic resources that are GPUs.
	draDriver = "gpu.nvidia.com"
)

// A Confidence says what Assignments are worth.
type Confidence string

// The values of a Confidence.
const (
	// Known: kubelet listed all its Pods, and what has no device here has none.
	Known Confidence = "Known"
	// Unknown: Reason says why. What is listed was assigned; what is not may have devices all the same.
	Unknown Confidence = "Unknown"
)

// A Doubt is why Assignments are not Known.
type Doubt string

// The reasons of Unknown.
const (
	// NoKubelet: there is no socket, or nobody answers.
	NoKubelet Doubt = "NoKubelet"
	// KubeletRefused: kubelet answered with an error.
	KubeletRefused Doubt = "KubeletRefused"
	// KubeletStarting: kubelet began a moment ago and may not know its Pods yet.
	KubeletStarting Doubt = "KubeletStarting"
	// Unconfirmed: the answer differs from the one before.
	Unconfirmed Doubt = "Unconfirmed"
	// WitnessMissing: kubelet does not list a Pod that is surely there, so that it has not heard from the API server.
	WitnessMissing Doubt = "WitnessMissing"
)

// Assignments are the devices that kubelet has assigned.
type Assignments struct {
	At         time.Time
	Confidence Confidence
	Reason     Doubt  // of Unknown
	Message    string // says more, for people
	List       []Assignment
}

// An Assignment is what one container has. Kubelet does not tell the UID of the Pod: one that was made anew under the
// same name looks the same, so that the caller compares UIDs before and after.
type Assignment struct {
	Pod       PodName
	Container string
	Devices   []Assigned // sorted by id
}

// Assigned is one device of a container.
type Assigned struct {
	// Resource is its name, such as nvidia.com/gpu, or the driver of a dynamic one.
	Resource string
	// ID is kubelet's: a device id, a CDI name, or "<pool>/<device>" of a dynamic resource.
	ID string
	// Ref is what the id says; nil: nothing that is understood here.
	Ref *Ref
}

// GPU reports whether a is a GPU or a MIG device, whether its id is understood or not: one that is not must not pass for
// a device of another kind. Of NVIDIA's resources all are, but for those named by a PCI address: network cards, which
// its network operator offers as nvidia.com/hostdev, and what is passed through to virtual machines, of which no driver
// here knows anything.
func (a Assigned) GPU() bool {
	return a.Ref != nil || a.Resource == draDriver || strings.HasPrefix(a.Resource, "nvidia.com/") && !pciAddress(a.ID)
}

// Of returns what a container has. Nothing means nothing only if a is Known.
func (a Assignments) Of(pod PodName, container string) []Assigned {
	for _, one := range a.List {
		if one.Pod == pod && one.Container == container {
			return one.Devices
		}
	}
	return nil
}

// A PodName names a Pod.
type PodName struct{ Namespace, Name string }

// A PodResourcesConfig says how to ask kubelet.
type PodResourcesConfig struct {
	// Dir is the folder of kubelet's socket, not the socket: kubelet replaces it.
	Dir string
	// Settle is how long a kubelet is not believed about what it does not list; default 10 s.
	Settle time.Duration
	// Witness is a Pod of the API server that surely runs here: the agent's own. Empty: there is none, and a kubelet
	// that was started without the API server is believed after Settle.
	Witness PodName
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// PodResources asks kubelet which devices it has assigned. It may be used from several goroutines.
type PodResources struct {
	config PodResourcesConfig

	// turn holds one token, for who asks; the fields below are theirs.
	turn   chan struct{}
	last   Assignments
	answer *answer // the last that kubelet gave; nil: none yet
}

// An answer is what one kubelet has listed.
type answer struct {
	from socket
	list []Assignment
	pods map[PodName]bool
}

// A socket is the file by which kubelet is known.
type socket struct {
	inode uint64
	made  time.Time
}

// NewPodResources returns a client; nothing is asked yet.
func NewPodResources(c PodResourcesConfig) *PodResources {
	if c.Settle == 0 {
		c.Settle = 10 * time.Second
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return &PodResources{config: c, turn: make(chan struct{}, 1)}
}

// Read returns the assignments. An answer is kept for a second.
func (p *PodResources) Read(ctx context.Context) Assignments {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return Assignments{At: p.config.Clock.Now(), Confidence: Unknown, Reason: NoKubelet, Message: ctx.Err().Error()}
	}
	now := p.config.Clock.Now()
	if age := now.Sub(p.last.At); !p.last.At.IsZero() && age >= 0 && age < listEvery {
		return p.last
	}
	a := Assignments{At: now, Confidence: Unknown}
	got, err := p.ask(ctx)
	if err != nil {
		a.Reason, a.Message = doubt(err), err.Error()
		// A deadline may be the caller's: it says nothing about kubelet, and the next one may ask at once.
		if code := status.Code(err); code != codes.DeadlineExceeded && code != codes.Canceled {
			p.last = a
		}
		return a
	}
	a.List = got.list
	if a.Reason, a.Message = p.config.judge(now, got, p.answer); a.Reason == "" {
		a.Confidence = Known
	}
	p.last, p.answer = a, &got
	return a
}

// judge says why an answer is not to be believed about what it does not list; nothing: it is.
func (c PodResourcesConfig) judge(now time.Time, got answer, before *answer) (Doubt, string) {
	switch {
	case now.Sub(got.from.made) < c.Settle:
		return KubeletStarting, fmt.Sprintf("kubelet began at %s", got.from.made.UTC().Format(time.RFC3339))
	case c.Witness != PodName{} && !got.pods[c.Witness]:
		return WitnessMissing, fmt.Sprintf("kubelet does not list %s/%s", c.Witness.Namespace, c.Witness.Name)
	case before == nil || before.from != got.from || !reflect.DeepEqual(before.list, got.list):
		return Unconfirmed, "the answer is new; the next one tells"
	}
	return "", ""
}

// errReplaced reports that one kubelet gave way to another while it was asked.
var errReplaced = errors.New("kubelet was started anew while it was asked")

func doubt(err error) Doubt {
	if errors.Is(err, errReplaced) {
		return KubeletStarting
	}
	code := status.Code(err)
	if code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled || errors.Is(err, fs.ErrNotExist) {
		return NoKubelet
	}
	return KubeletRefused
}

// ask asks kubelet, by a connection of its own: one that was kept would be to the socket of an earlier kubelet.
func (p *PodResources) ask(ctx context.Context) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	path := filepath.Join(p.config.Dir, kubeletSocket)
	from, err := socketAt(path)
	if err != nil {
		return answer{}, err
	}
	conn, err := grpc.NewClient("unix://"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return answer{}, fmt.Errorf("dial kubelet: %w", err)
	}
	defer func() { _ = conn.Close() }() // nothing is under way
	listed, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return answer{}, fmt.Errorf("list pod resources: %w", err)
	}
	// One that takes over between the first look and the connection would pass for the one before.
	if now, err := socketAt(path); err != nil || now != from {
		return answer{}, errReplaced
	}
	got := answer{from: from}
	got.list, got.pods = assignments(listed)
	return got, nil
}

// assignments are the containers of an answer that have devices, and the Pods in it. The order in which kubelet lists
// Pods and devices differs from answer to answer.
func assignments(listed *podresources.ListPodResourcesResponse) ([]Assignment, map[PodName]bool) {
	var list []Assignment
	pods := map[PodName]bool{}
	for _, pod := range listed.GetPodResources() {
		name := PodName{pod.GetNamespace(), pod.GetName()}
		pods[name] = true
		for _, c := range pod.GetContainers() {
			if devices := assigned(c); len(devices) > 0 {
				list = append(list, Assignment{Pod: name, Container: c.GetName(), Devices: devices})
			}
		}
	}
	slices.SortFunc(list, func(a, b Assignment) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name), cmp.Compare(a.Container, b.Container))
	})
	return list, pods
}

func assigned(c *podresources.ContainerResources) []Assigned {
	var devices []Assigned
	for _, d := range c.GetDevices() {
		for _, id := range d.GetDeviceIds() {
			devices = append(devices, Assigned{Resource: d.GetResourceName(), ID: id, Ref: meant(id, ParseDeviceID)})
		}
	}
	for _, r := range c.GetDynamicResources() {
		for _, claimed := range r.GetClaimResources() {
			devices = append(devices, dynamic(claimed))
		}
	}
	slices.SortFunc(devices, func(a, b Assigned) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.ID, b.ID))
	})
	return devices
}

// dynamic is a device of a claim. Its CDI names say what it is where they hold the UUID; of NVIDIA's driver its own
// name does too.
func dynamic(c *podresources.ClaimResource) Assigned {
	a := Assigned{Resource: c.GetDriverName(), ID: c.GetPoolName() + "/" + c.GetDeviceName()}
	for _, d := range c.GetCdiDevices() {
		if a.Ref = meant(d.GetName(), ParseCDI); a.Ref != nil {
			break
		}
	}
	if a.Ref == nil && c.GetDriverName() == draDriver {
		a.Ref = meant(c.GetDeviceName(), ParseDRA)
	}
	if a.Ref != nil && c.GetShareId() != "" {
		a.Ref.Shared = true
	}
	return a
}

// meant is what an id says, or nil.
func meant(id string, parse func(string) (Ref, bool)) *Ref {
	r, ok := parse(id)
	if !ok {
		return nil
	}
	return &r
}

// socketAt returns what tells one kubelet's socket from the next one's.
func socketAt(path string) (socket, error) {
	info, err := os.Stat(path)
	if err != nil {
		return socket{}, fmt.Errorf("kubelet: %w", err)
	}
	s := socket{made: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = sys.Ino
	}
	return s, nil
}
