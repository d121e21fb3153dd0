package show

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pitstop.dev/gpu/attribution"
	"pitstop.dev/test/engine/server"
)

func version(ctx context.Context, url string) (server.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var info server.Info
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/version", nil)
	if err != nil {
		return info, fmt.Errorf("version: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return info, fmt.Errorf("version: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	if err := json.NewDecoder(resp.Body).Decode(&info); err != nil {
		return info, fmt.Errorf("version: %w", err)
	}
	return info, nil
}

// A portrait is what a Pod is known by.
type portrait struct {
	uid, ip, node    string
	file             string // what the first start of the engine wrote into the emptyDir
	restarts         int32
	image, imageID   string
	container        string
	version, created string
	gpus             []string // UUIDs, as kubelet has given them to the engine
}

// portray reads all that is to be compared before and after.
func (s *show) portray(ctx context.Context, name string) (portrait, error) {
	pod, err := s.Pod(ctx, name)
	if err != nil {
		return portrait{}, err
	}
	info, err := version(ctx, "http://"+pod.Status.PodIP+":8000")
	if err != nil {
		return portrait{}, fmt.Errorf("pod %s: %w", name, err)
	}
	st := engineStatus(pod)
	return portrait{
		uid: string(pod.UID), ip: pod.Status.PodIP, node: pod.Spec.NodeName, file: info.First,
		restarts: st.RestartCount, image: pod.Spec.Containers[0].Image, imageID: st.ImageID, container: st.ContainerID,
		version: info.Version, created: pod.CreationTimestamp.String(), gpus: s.assigned(ctx, pod),
	}, nil
}

// assigned are the engine's GPUs, as kubelet tells device by device. What it lists it has given, whatever it knows else.
func (s *show) assigned(ctx context.Context, pod *corev1.Pod) []string {
	kubelet, ok := s.kubelets[pod.Spec.NodeName]
	if !ok {
		return nil
	}
	var ids []string
	for _, d := range kubelet.Read(ctx).Of(attribution.PodName{Namespace: pod.Namespace, Name: pod.Name}, "engine") {
		ids = append(ids, d.ID)
	}
	return ids
}

func engineStatus(pod *corev1.Pod) corev1.ContainerStatus {
	for _, st := range pod.Status.ContainerStatuses {
		if st.Name == "engine" {
			return st
		}
	}
	return corev1.ContainerStatus{}
}
