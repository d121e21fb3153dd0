package cri

import (
	"encoding/json"
	"hash/fnv"
	"strconv"

	"k8s.io/utils/dump"
)

// KubeletHash returns what kubelet writes into the annotation io.kubernetes.container.hash
// of a container with this name and image string, from Kubernetes 1.31 on: 32-bit FNV-1a
// over a dump of the JSON of the two. The image is the string in the Pod's spec as it
// stands there, not a normalised reference.
//
// https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/kubelet/container/helpers.go
func KubeletHash(name, image string) string {
	// A map of strings always marshals.
	data, _ := json.Marshal(map[string]string{"name": name, "image": image})
	h := fnv.New32a()
	_, _ = h.Write([]byte(dump.ForHash(data)))
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}
