package server_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pitstop.dev/test/engine/server"
)

func decode(body string, into any) bool { return json.Unmarshal([]byte(body), into) == nil }

func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := env[name]; return v, ok }
}

func TestFromEnv(t *testing.T) {
	zero, minute := time.Duration(0), time.Minute
	defaults := server.Config{Address: ":8000", Version: "unversioned", Model: "test", Slots: 256, Grace: 30 * time.Second}
	for name, tt := range map[string]struct {
		env  map[string]string
		want func(*server.Config)
	}{
		"nothing set": {nil, func(*server.Config) {}},
		"everything set": {
			map[string]string{
				server.EnvAddress: ":1", server.EnvVersion: "v2", server.EnvModel: "m", server.EnvState: "/s",
				server.EnvLoad: "1s", server.EnvSlots: "3", server.EnvClaimMiB: "4", server.EnvIgnoreSIGTERM: "true",
				server.EnvGrace: "5s", server.EnvShutdown: "6s", server.EnvCrashAfter: "1m", server.EnvCrashTimes: "7",
				server.EnvEntry: "http://entry:8000", server.EnvFollow: "true",
				server.EnvGPUs: "GPU-a,GPU-b", server.EnvGPUMiB: "8", server.EnvGPURelease: "20s", server.EnvGPUSocket: "/c",
			},
			func(c *server.Config) {
				*c = server.Config{
					Address: ":1", Version: "v2", Model: "m", State: "/s", Load: time.Second, Slots: 3, ClaimMiB: 4,
					IgnoreSIGTERM: true, Grace: 5 * time.Second, Shutdown: 6 * time.Second, CrashAfter: &minute, CrashTimes: 7,
					Entry: "http://entry:8000", Follow: true,
					GPUs: []string{"GPU-a", "GPU-b"}, GPUMiB: 8, GPURelease: 20 * time.Second, GPUSocket: "/c",
				}
			},
		},
		"memory for GPUs that it is not given": {
			map[string]string{server.EnvGPUs: "void", server.EnvGPUMiB: "8", server.EnvGPURelease: "never"},
			func(c *server.Config) { c.GPUMiB, c.GPURelease = 8, -1 },
		},
		"a number of crashes is at once": {
			map[string]string{server.EnvCrashTimes: "1", server.EnvState: "/s"},
			func(c *server.Config) { c.CrashTimes, c.State, c.CrashAfter = 1, "/s", &zero },
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := defaults
			tt.want(&want)
			got, err := server.FromEnv(lookup(tt.env))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("FromEnv() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFromEnvNamesWhatIsWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		env  map[string]string
		want string
	}{
		"a duration without unit":    {map[string]string{server.EnvLoad: "5"}, server.EnvLoad},
		"a negative duration":        {map[string]string{server.EnvGrace: "-5s"}, server.EnvGrace},
		"a number that is none":      {map[string]string{server.EnvClaimMiB: "1Gi"}, server.EnvClaimMiB},
		"a fact that is none":        {map[string]string{server.EnvIgnoreSIGTERM: "maybe"}, server.EnvIgnoreSIGTERM},
		"no slots":                   {map[string]string{server.EnvSlots: "0"}, "slots"},
		"a version that is a path":   {map[string]string{server.EnvVersion: "../x"}, "version"},
		"crashes counted in nothing": {map[string]string{server.EnvCrashTimes: "1"}, server.EnvState},
		"an entry that is no URL":    {map[string]string{server.EnvEntry: "entry:8000"}, "entry"},
		"nobody to ask for memory":   {map[string]string{server.EnvGPUs: "GPU-a", server.EnvGPUMiB: "8"}, server.EnvGPUSocket},
		"a release that is none":     {map[string]string{server.EnvGPURelease: "soon"}, server.EnvGPURelease},
		"nobody to follow":           {map[string]string{server.EnvFollow: "true"}, server.EnvEntry},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := server.FromEnv(lookup(tt.env)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that names %s", err, tt.want)
			}
		})
	}
}
