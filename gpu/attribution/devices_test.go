package attribution_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pitstop.dev/gpu"
	"pitstop.dev/gpu/attribution"
)

const (
	gpuA = "GPU-11111111-2222-3333-4444-555555555555"
	gpuB = "GPU-fef8089b-4820-abfc-e83e-94318197576e"
	migA = "MIG-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
	migB = "MIG-aaaaaaaa-bbbb-cccc-dddd-ffffffffffff"
)

const none = gpu.NoInstance

func whole(uuid string) attribution.Ref {
	return attribution.Ref{UUID: uuid, Minor: -1, GI: none, CI: none}
}

func minor(n int) attribution.Ref { return attribution.Ref{Minor: n, GI: none, CI: none} }

func with(r attribution.Ref, change func(*attribution.Ref)) *attribution.Ref {
	change(&r)
	return &r
}

func part(r *attribution.Ref)   { r.Part = true }
func shared(r *attribution.Ref) { r.Shared = true }
func both(r *attribution.Ref)   { r.Part, r.Shared = true, true }

func gi(n uint32) func(*attribution.Ref) {
	return func(r *attribution.Ref) { r.GI, r.Part = n, true }
}

func TestParseDeviceID(t *testing.T) {
	as := func(*attribution.Ref) {}
	for id, want := range map[string]*attribution.Ref{
		gpuA:                      with(whole(gpuA), as),
		migA:                      with(whole(migA), part),
		"MIG-" + gpuA + "/7/0":    {UUID: gpuA, Minor: -1, GI: 7, CI: 0, Part: true},
		gpuA + "::3":              with(whole(gpuA), shared),
		migA + "::0":              with(whole(migA), both),
		"MIG-" + gpuA + "/7/0::1": {UUID: gpuA, Minor: -1, GI: 7, CI: 0, Part: true, Shared: true},
		"nvidia0":                 with(minor(0), as),
		"nvidia12":                with(minor(12), as),
		"nvidia0/gi3":             with(minor(0), gi(3)),
		"nvidia0/vgpu0":           with(minor(0), shared),
		"nvidia0/gi3/vgpu1":       {Minor: 0, GI: 3, CI: none, Part: true, Shared: true},

		"":                                 nil,
		"0":                                nil,
		"GPU-":                             nil,
		"GPU-1":                            nil,
		strings.ToUpper(gpuB):              nil,
		gpuA + "::":                        nil,
		gpuA + "::x":                       nil,
		gpuA + "::1::2":                    nil,
		gpuA + "/1/2":                      nil,
		"MIG-" + gpuA:                      nil,
		"MIG-" + gpuA + "/1":               nil,
		"MIG-" + gpuA + "/1/2/3":           nil,
		"MIG-" + gpuA + "/a/0":             nil,
		"MIG-" + gpuA + "/-1/0":            nil,
		"nvidia":                           nil,
		"nvidia-1":                         nil,
		"nvidia01":                         nil,
		"nvidia0/":                         nil,
		"nvidia0/gi":                       nil,
		"nvidia0/vgpu":                     nil,
		"nvidia0/vgpu0/gi3":                nil,
		"nvidia0/gi3/vgpu0/x":              nil,
		"nvidia0::1":                       nil,
		"nvidiactl":                        nil,
		"GPU-11111111-2222-3333-4444-5555": nil,
	} {
		t.Run(id, func(t *testing.T) { refIs(t, want, attribution.ParseDeviceID, id) })
	}
}

func TestParseCDI(t *testing.T) {
	as := func(*attribution.Ref) {}
	for name, want := range map[string]*attribution.Ref{
		"nvidia.com/gpu=" + gpuA:                                           with(whole(gpuA), as),
		"k8s.device-plugin.nvidia.com/gpu=" + migA:                         with(whole(migA), part),
		"k8s.gpu.nvidia.com/claim=" + podUID + "-gpu-3":                    with(minor(3), as),
		"k8s.gpu.nvidia.com/claim=" + podUID + "-gpu-0-mig-1g24gb-19-0":    with(minor(0), part),
		"k8s.gpu.nvidia.com/claim=" + podUID + "-" + gpuA:                  with(whole(gpuA), as),
		"k8s.gpu.nvidia.com/claim=" + podUID + "-" + migA:                  with(whole(migA), part),
		"nvidia.com/gpu=0":                                                 nil,
		"nvidia.com/gpu=all":                                               nil,
		"nvidia.com/gpu=":                                                  nil,
		gpuA:                                                               nil,
		"gpu=" + gpuA:                                                      nil,
		"k8s.gpu.nvidia.com/claim=" + podUID:                               nil,
		"k8s.gpu.nvidia.com/claim=" + podUID + "-gpu-":                     nil,
		"k8s.gpu.nvidia.com/claim=" + podUID + "-gpu-0-mig-":               nil,
		"k8s.gpu.nvidia.com/claim=" + podUID + "-computedomain-channel-0":  nil,
		"k8s.gpu.nvidia.com/claim=" + podUID + "-gpu-0/../" + gpuA + "::1": nil,
	} {
		t.Run(name, func(t *testing.T) { refIs(t, want, attribution.ParseCDI, name) })
	}
}

func refIs(t *testing.T, want *attribution.Ref, parse func(string) (attribution.Ref, bool), in string) {
	t.Helper()
	got, ok := parse(in)
	if ok != (want != nil) {
		t.Fatalf("%q: %+v, %t", in, got, ok)
	}
	if want == nil {
		want = &attribution.Ref{}
	}
	if diff := cmp.Diff(*want, got); diff != "" {
		t.Errorf("%q (-want +got):\n%s", in, diff)
	}
}

func TestParseDeviceIDInventsNothing(t *testing.T) {
	piece := rapid.SampledFrom([]string{"GPU-", "MIG-", gpuA, migA, podUID, "/", "7", "0", "::", "nvidia", "gi", "vgpu", "-", "=", "nvidia.com/gpu", "gpu-", "-mig-"})
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(rapid.OneOf(piece, rapid.String()), 0, 6).Draw(t, "id"), "")
		for _, parse := range []func(string) (attribution.Ref, bool){attribution.ParseDeviceID, attribution.ParseCDI, attribution.ParseDRA} {
			r, ok := parse(in)
			switch {
			case ok && r.UUID == "" && r.Minor < 0, ok && r.UUID != "" && r.Minor >= 0:
				t.Fatalf("%q names a device in no way, or in two: %+v", in, r)
			case !strings.Contains(in, r.UUID):
				t.Fatalf("%q: %+v is not in it", in, r)
			case !ok && r != attribution.Ref{}:
				t.Fatalf("%q: refused with %+v", in, r)
			case r.GI != none && ok && !r.Part:
				t.Fatalf("%q: an instance, and not a part: %+v", in, r)
			}
		}
	})
}

func TestFind(t *testing.T) {
	reading := gpu.Reading{State: gpu.Up, Devices: []gpu.Device{
		{Index: 0, UUID: gpuA, Minor: 1, MIG: []gpu.MIG{{UUID: migA, GI: 3, CI: 0}, {UUID: migB, GI: 5, CI: 0}, {UUID: "MIG-other", GI: 5, CI: 1}}},
		{Index: 1, UUID: gpuB, Minor: 0},
		{Index: 2, UUID: "GPU-unknown-minor", Minor: -1},
	}}
	type found struct{ device, mig string }
	for name, tt := range map[string]struct {
		ref  attribution.Ref
		want *found
	}{
		"by UUID":                                   {whole(gpuB), &found{gpuB, ""}},
		"by minor, which is no index":               {minor(0), &found{gpuB, ""}},
		"a MIG device by UUID":                      {*with(whole(migB), part), &found{gpuA, migB}},
		"a MIG device by instances":                 {attribution.Ref{UUID: gpuA, Minor: -1, GI: 5, CI: 0, Part: true}, &found{gpuA, migB}},
		"a MIG device by minor and instance":        {*with(minor(1), gi(3)), &found{gpuA, migA}},
		"one of two in an instance":                 {*with(minor(1), gi(5)), &found{gpuA, ""}},
		"some MIG device of a GPU":                  {*with(minor(1), part), &found{gpuA, ""}},
		"a GPU that is not there":                   {whole("GPU-99999999-2222-3333-4444-555555555555"), nil},
		"a Ref that says nothing":                   {minor(-1), nil},
		"an instance that only another GPU has":     {attribution.Ref{UUID: gpuB, Minor: -1, GI: 3, CI: 0, Part: true}, nil},
		"a minor that is not there":                 {minor(7), nil},
		"a MIG device that is not there any more":   {*with(whole("MIG-99999999-2222-3333-4444-555555555555"), part), nil},
		"a MIG instance that is not there any more": {*with(minor(1), gi(9)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			target, ok := tt.ref.Find(reading)
			if ok != (tt.want != nil) {
				t.Fatalf("found %t: %+v", ok, target)
			}
			if !ok {
				return
			}
			got := found{device: target.Device.UUID}
			if target.MIG != nil {
				got.mig = target.MIG.UUID
			}
			if got != *tt.want {
				t.Errorf("found %+v, want %+v", got, *tt.want)
			}
		})
	}
	if _, ok := whole(gpuA).Find(gpu.Reading{State: gpu.Unknown}); ok {
		t.Error("found in a reading without devices")
	}
}

func TestWhichDevicesAreGPUs(t *testing.T) {
	for name, tt := range map[string]struct {
		resource, id string
		want         bool
	}{
		"one by its UUID":                        {"nvidia.com/gpu", gpuA, true},
		"one of GKE":                             {"nvidia.com/gpu", "nvidia0", true},
		"one by an index, which tells nothing":   {"nvidia.com/gpu", "0", true},
		"a MIG device by indices":                {"nvidia.com/mig-1g.18gb", "0:0", true},
		"a resource with a name of its own":      {"nvidia.com/a100-spot", "odd::1", true},
		"one of another resource, by its UUID":   {"example.com/gpu", gpuA, true},
		"a dynamic one":                          {"gpu.nvidia.com", "node-1/gpu-x", true},
		"an IMEX channel":                        {"compute-domain.nvidia.com", "node-1/channel-0", false},
		"a network card":                         {"example.com/rdma", "mlx5_0", false},
		"a network card of the network operator": {"nvidia.com/hostdev", "0000:3b:00.2", false},
		"nearly a PCI address":                   {"nvidia.com/gpu", "0000:3b:00", true},
		"nor is this one":                        {"nvidia.com/gpu", "0000:3x:00.2", true},
		"something of another vendor":            {"amd.com/gpu", "0", false},
	} {
		t.Run(name, func(t *testing.T) {
			a := attribution.Assigned{Resource: tt.resource, ID: tt.id}
			if r, ok := attribution.ParseDeviceID(tt.id); ok {
				a.Ref = &r
			}
			if got := a.GPU(); got != tt.want {
				t.Errorf("GPU() = %t", got)
			}
		})
	}
}
