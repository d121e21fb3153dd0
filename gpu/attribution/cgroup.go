package attribution

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrUnclear reports that control groups do not say where a process is.
var ErrUnclear = errors.New("unclear control groups")

// A Place is where a process is, by its control groups.
type Place struct {
	// PodUID is as kubelet writes it on the containers: of a static Pod the hash of its manifest, 32 digits without
	// dashes, which is not the UID of its mirror in the API. Empty: hidden by a private control group namespace.
	PodUID string
	// ContainerID is empty for what is in the Pod's group but in no container's: the runtime's own processes.
	ContainerID string
}

// ParseCgroup reads the content of /proc/PID/cgroup and returns the places it names, the outermost first. There is
// more than one where a kubelet runs in a Pod of another; only the runtime tells which is its own. None is a process
// of the host. The error is ErrUnclear: nothing readable, or lines that disagree.
func ParseCgroup(content string) ([]Place, error) {
	var places []Place
	lines := 0
	for line := range strings.Lines(content) {
		// "4:memory:/path" in version 1, "0::/path" in version 2; the path may hold colons.
		part := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(part) != 3 || !strings.HasPrefix(part[2], "/") {
			return nil, fmt.Errorf("%w: line %.80q", ErrUnclear, line)
		}
		lines++
		found, err := parsePath(part[2])
		if err != nil {
			return nil, err
		}
		// Not every hierarchy of version 1 has the Pods.
		if len(found) == 0 {
			continue
		}
		if places != nil && !slices.Equal(places, found) {
			return nil, fmt.Errorf("%w: lines disagree: %v and %v", ErrUnclear, places, found)
		}
		places = found
	}
	if lines == 0 {
		return nil, fmt.Errorf("%w: empty", ErrUnclear)
	}
	return places, nil
}

// parsePath returns the places along one path.
func parsePath(path string) ([]Place, error) {
	// The kernel marks a group that was removed under a process that is dead and not reaped.
	groups := split(strings.TrimSuffix(path, " (deleted)"))
	var places []Place
	kubepods := false
	for i, name := range groups {
		uid, ok := podGroup(groups[:i], name)
		if !ok {
			kubepods = kubepods || name == "kubepods" || systemdSlice(name)
			continue
		}
		place := Place{PodUID: uid}
		if i+1 < len(groups) {
			place.ContainerID = containerGroup(groups[i+1])
		}
		places = append(places, place)
	}
	if len(places) > 0 {
		return places, nil
	}
	if kubepods {
		return nil, fmt.Errorf("%w: among the Pods, but in none: %.200q", ErrUnclear, path)
	}
	return relative(groups, path)
}

// relative returns the place along a path that begins above the root of a private control group namespace: a
// container of the reader's own Pod shows as "/../<id>".
func relative(groups []string, path string) ([]Place, error) {
	if len(groups) == 0 || groups[0] != ".." {
		return nil, nil
	}
	i := slices.IndexFunc(groups, func(name string) bool { return name != ".." })
	if i < 0 {
		return nil, fmt.Errorf("%w: above a private namespace: %.200q", ErrUnclear, path)
	}
	if id := containerGroup(groups[i]); id != "" {
		return []Place{{ContainerID: id}}, nil
	}
	return nil, nil
}

// split takes a path apart. A containerd that was not told of kubelet's systemd driver makes one group of what
// should be two, "<slice>:cri-containerd:<id>".
func split(path string) []string {
	var groups []string
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if slice, container, ok := strings.Cut(name, ".slice:"); ok {
			groups = append(groups, slice+".slice", strings.ReplaceAll(container, ":", "-"))
		} else if name != "" {
			groups = append(groups, name)
		}
	}
	return groups
}

// podGroup returns the UID of the Pod that a group is for; above are the groups above it.
func podGroup(above []string, name string) (uid string, ok bool) {
	if systemdSlice(name) {
		name = strings.TrimSuffix(name, ".slice")
		i := strings.LastIndex(name, "-pod")
		if i < 0 {
			return "", false
		}
		uid = strings.ReplaceAll(name[i+len("-pod"):], "_", "-")
		return uid, podUID(uid)
	}
	uid, ok = strings.CutPrefix(name, "pod")
	return uid, ok && podUID(uid) && holdsPods(above)
}

// holdsPods reports whether cgroupfs groups of Pods are right below these.
func holdsPods(above []string) bool {
	if len(above) == 0 {
		return false
	}
	last := above[len(above)-1]
	if last == "burstable" || last == "besteffort" {
		above = above[:len(above)-1]
		if len(above) == 0 {
			return false
		}
		last = above[len(above)-1]
	}
	// A private namespace shows ".." for all that it shares with the reader.
	return last == "kubepods" || last == ".."
}

// systemdSlice reports whether name is a slice of kubelet for Pods, below any other slice such as kubelet.slice.
func systemdSlice(name string) bool {
	name, ok := strings.CutSuffix(name, ".slice")
	if !ok {
		return false
	}
	for part := range strings.SplitSeq(name, "-") {
		if part == "kubepods" {
			return true
		}
	}
	return false
}

// podUID accepts what a Pod's UID is made of: hex digits with dashes where a UUID has them, or 32 without.
func podUID(s string) bool {
	if len(s) == 32 {
		return hex(s)
	}
	return uuid(s)
}

// containerGroup returns the id of the container that a group is for, or nothing. The id may stand alone, or behind
// the runtime's name. The monitor of CRI-O is in a group of its own, and not in the container.
func containerGroup(name string) string {
	name = strings.TrimSuffix(name, ".scope")
	prefix, id := "", name
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		prefix, id = name[:i], name[i+1:]
	}
	if len(id) != 64 || !hex(id) || strings.HasSuffix(prefix, "conmon") {
		return ""
	}
	return id
}

// uuid reports whether s is a UUID in lower case.
func uuid(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, part := 0, strings.Split(s, "-"); i < 5; i++ {
		if len(part) != 5 || len(part[i]) != []int{8, 4, 4, 4, 12}[i] || !hex(part[i]) {
			return false
		}
	}
	return true
}

func hex(s string) bool {
	return s != "" && strings.Trim(s, "0123456789abcdef") == ""
}
