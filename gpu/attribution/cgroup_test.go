package attribution_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pitstop.dev/gpu/attribution"
)

const (
	podUID     = "0f3ba1f4-6f8c-4d0e-9a55-3c1f0a4b7d21"
	outerUID   = "7c1de8f0-23ab-4c55-8a11-d0a9e5b6c7f8"
	staticUID  = "9b2d7c41e0f85a6633cc10ab47de92f1"
	underlined = "0f3ba1f4_6f8c_4d0e_9a55_3c1f0a4b7d21"
)

func id(digit string) string { return strings.Repeat(digit, 64) }

func TestParseCgroup(t *testing.T) {
	in := func(pod, container string) []attribution.Place {
		return []attribution.Place{{PodUID: pod, ContainerID: container}}
	}
	for name, tt := range map[string]struct {
		content string
		want    []attribution.Place
	}{
		"cgroupfs, guaranteed":            {"0::/kubepods/pod" + podUID + "/" + id("a"), in(podUID, id("a"))},
		"cgroupfs, burstable":             {"0::/kubepods/burstable/pod" + podUID + "/" + id("a"), in(podUID, id("a"))},
		"cgroupfs, best effort":           {"0::/kubepods/besteffort/pod" + podUID + "/" + id("a"), in(podUID, id("a"))},
		"cgroupfs, CRI-O":                 {"0::/kubepods/besteffort/pod" + podUID + "/crio-" + id("a"), in(podUID, id("a"))},
		"cgroupfs, CRI-O's monitor":       {"0::/kubepods/besteffort/pod" + podUID + "/crio-conmon-" + id("a"), in(podUID, "")},
		"cgroupfs, below a kubelet's own": {"0::/lab/node1/kubepods/burstable/pod" + podUID + "/" + id("a"), in(podUID, id("a"))},
		"systemd, containerd": {
			"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + underlined + ".slice/cri-containerd-" + id("a") + ".scope",
			in(podUID, id("a")),
		},
		"systemd, guaranteed": {
			"0::/kubepods.slice/kubepods-pod" + underlined + ".slice/cri-containerd-" + id("a") + ".scope", in(podUID, id("a")),
		},
		"systemd, CRI-O": {
			"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + underlined + ".slice/crio-" + id("a") + ".scope",
			in(podUID, id("a")),
		},
		"systemd, CRI-O's monitor": {
			"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + underlined + ".slice/crio-conmon-" + id("a") + ".scope",
			in(podUID, ""),
		},
		"systemd, Docker": {
			"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + underlined + ".slice/docker-" + id("a") + ".scope",
			in(podUID, id("a")),
		},
		"crun's child": {
			"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + underlined + ".slice/crio-" + id("a") + ".scope/container",
			in(podUID, id("a")),
		},
		"a child that the container made":  {"0::/kubepods/pod" + podUID + "/" + id("a") + "/docker/" + id("b"), in(podUID, id("a"))},
		"systemd in the container":         {"0::/kubepods/pod" + podUID + "/" + id("a") + "/system.slice/cron.service", in(podUID, id("a"))},
		"static Pod, cgroupfs":             {"0::/kubepods/burstable/pod" + staticUID + "/" + id("a"), in(staticUID, id("a"))},
		"static Pod, systemd":              {"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + staticUID + ".slice/cri-containerd-" + id("a") + ".scope", in(staticUID, id("a"))},
		"containerd without systemd's way": {"0::/system.slice/containerd.service/kubepods-burstable-pod" + underlined + ".slice:cri-containerd:" + id("a"), in(podUID, id("a"))},
		"kind": {
			"0::/docker/" + id("d") + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" + underlined +
				".slice/cri-containerd-" + id("a") + ".scope",
			in(podUID, id("a")),
		},
		"kind, cgroupfs": {"0::/docker/" + id("d") + "/kubelet/kubepods/besteffort/pod" + podUID + "/" + id("a"), in(podUID, id("a"))},
		"a kubelet in a Pod of another": {
			"0::/kubepods/pod" + outerUID + "/" + id("d") + "/kubelet/kubepods/burstable/pod" + podUID + "/" + id("a"),
			[]attribution.Place{{PodUID: outerUID, ContainerID: id("d")}, {PodUID: podUID, ContainerID: id("a")}},
		},
		"version 1": {
			"12:devices:/kubepods/burstable/pod" + podUID + "/" + id("a") + "\n4:memory:/kubepods/burstable/pod" + podUID + "/" + id("a") +
				"\n1:name=systemd:/kubepods/burstable/pod" + podUID + "/" + id("a") + "\n",
			in(podUID, id("a")),
		},
		"version 1, not in every hierarchy": {
			"9:name=systemd:/\n8:pids:/lab/node2/kubepods/pod" + podUID + "/" + id("a") + "\n4:memory:/process_api/" + staticUID + "\n0::/\n",
			in(podUID, id("a")),
		},
		"a removed group of a dead process": {"0::/kubepods/pod" + podUID + "/" + id("a") + " (deleted)\n", in(podUID, id("a"))},
		"private namespace, systemd": {
			"0::/../../kubepods-besteffort.slice/kubepods-besteffort-pod" + underlined + ".slice/cri-containerd-" + id("a") + ".scope",
			in(podUID, id("a")),
		},
		"private namespace, same class":              {"0::/../../pod" + podUID + "/" + id("a"), in(podUID, id("a"))},
		"private namespace, other class":             {"0::/../../../besteffort/pod" + podUID + "/" + id("a"), in(podUID, id("a"))},
		"private namespace, same Pod":                {"0::/../" + id("a"), in("", id("a"))},
		"private namespace, same Pod, systemd":       {"0::/../cri-containerd-" + id("a") + ".scope", in("", id("a"))},
		"private namespace, a service":               {"0::/../../../system.slice/nvidia-persistenced.service", nil},
		"the sandbox of gVisor":                      {"0::/kubepods/pod" + podUID + "/" + id("c"), in(podUID, id("c"))},
		"a service":                                  {"0::/system.slice/nvidia-persistenced.service", nil},
		"a container of Docker":                      {"0::/system.slice/docker-" + id("a") + ".scope", nil},
		"the root":                                   {"0::/", nil},
		"a folder called pod outside of kubelet's":   {"0::/user.slice/pod" + podUID + "/" + id("a"), nil},
		"a Pod's group without a container":          {"0::/kubepods/pod" + podUID, in(podUID, "")},
		"something in a Pod's group, no container":   {"0::/kubepods/pod" + podUID + "/init.scope", in(podUID, "")},
		"an id too short":                            {"0::/kubepods/pod" + podUID + "/" + id("a")[1:], in(podUID, "")},
		"an id in capitals":                          {"0::/kubepods/pod" + podUID + "/" + id("A"), in(podUID, "")},
		"systemd, a slice whose name has pod before": {"0::/my-pods.slice/my-pods-kubepods.slice/my-pods-kubepods-pod" + underlined + ".slice/crio-" + id("a") + ".scope", in(podUID, id("a"))},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := attribution.ParseCgroup(tt.content)
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("ParseCgroup(%q): error %v (-want +got):\n%s", tt.content, err, diff)
			}
		})
	}
}

func TestParseCgroupSaysWhatIsUnclear(t *testing.T) {
	for name, content := range map[string]string{
		"nothing":                           "",
		"no line of control groups":         "hello\n",
		"a path that does not begin":        "0::kubepods\n",
		"among the Pods and in none":        "0::/kubepods/burstable\n",
		"a Pod's UID of an unknown form":    "0::/kubepods/burstable/podmy-own/" + id("a"),
		"the same, systemd":                 "0::/kubepods.slice/kubepods-podmy_own.slice/crio-" + id("a") + ".scope",
		"above a private namespace":         "0::/../..\n",
		"lines that name two containers":    "2:cpu:/kubepods/pod" + podUID + "/" + id("a") + "\n1:memory:/kubepods/pod" + podUID + "/" + id("b"),
		"lines that name a Pod and its one": "2:cpu:/kubepods/pod" + podUID + "\n1:memory:/kubepods/pod" + podUID + "/" + id("a"),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := attribution.ParseCgroup(content); !errors.Is(err, attribution.ErrUnclear) || got != nil {
				t.Errorf("ParseCgroup(%q) = %v, %v", content, got, err)
			}
		})
	}
}

// Whatever is read, the ids that come out stand in it, with the right number of digits.
func invents(t interface{ Fatalf(string, ...any) }, content string) {
	places, err := attribution.ParseCgroup(content)
	if err != nil && places != nil {
		t.Fatalf("%q: %v and an error", content, places)
	}
	for _, p := range places {
		uid := strings.ReplaceAll(p.PodUID, "-", "_")
		if !strings.Contains(content, p.PodUID) && !strings.Contains(content, uid) || !strings.Contains(content, p.ContainerID) {
			t.Fatalf("%q: %+v is not in it", content, p)
		}
		if n := len(p.PodUID); n != 0 && n != 32 && n != 36 || len(p.ContainerID) != 0 && len(p.ContainerID) != 64 || p == (attribution.Place{}) {
			t.Fatalf("%q: ids %+v", content, p)
		}
		if strings.Contains(content, "conmon-"+p.ContainerID) && p.ContainerID != "" && strings.Count(content, p.ContainerID) == 1 {
			t.Fatalf("%q: the monitor is not the container", content)
		}
	}
}

func TestParseCgroupInventsNothing(t *testing.T) {
	group := rapid.SampledFrom([]string{
		"kubepods", "burstable", "besteffort", "..", ".", "", "lab", "node1", "docker", "container", "system.slice", "kubepods.slice",
		"kubelet-kubepods.slice", "kubepods-burstable.slice", "pod" + podUID, "pod" + staticUID, "pod", "pod-", "-pod.slice", "kubepods-pod.slice",
		"kubepods-burstable-pod" + underlined + ".slice", "kubelet-kubepods-pod" + staticUID + ".slice", id("a"), id("b"), id("a")[1:],
		"cri-containerd-" + id("a") + ".scope", "crio-" + id("a") + ".scope", "crio-conmon-" + id("b") + ".scope", "crio-conmon-" + id("b"),
		"kubepods-pod" + underlined + ".slice:cri-containerd:" + id("c"), ":", "(deleted)", " (deleted)", "\x00", "\xff",
	})
	rapid.Check(t, func(t *rapid.T) {
		var content strings.Builder
		for range rapid.IntRange(0, 4).Draw(t, "lines") {
			content.WriteString(rapid.SampledFrom([]string{"0::/", "4:memory:/", "1:name=systemd:/", "0:", "::", ""}).Draw(t, "head"))
			content.WriteString(strings.Join(rapid.SliceOfN(rapid.OneOf(group, rapid.String()), 0, 8).Draw(t, "path"), "/"))
			content.WriteString(rapid.SampledFrom([]string{"\n", "", " (deleted)\n"}).Draw(t, "end"))
		}
		invents(t, content.String())
	})
}

func FuzzParseCgroup(f *testing.F) {
	f.Add("0::/kubepods/burstable/pod" + podUID + "/" + id("a"))
	f.Add("0::/../../kubepods-besteffort-pod" + underlined + ".slice/crio-conmon-" + id("a") + ".scope")
	f.Add("12:devices:/lab/node1/kubepods/pod" + staticUID + "/" + id("b") + "\n0::/\n")
	f.Fuzz(func(t *testing.T, content string) { invents(t, content) })
}
