package main

import (
	"strings"
	"testing"
)

func TestTheCheckEndsAsNodeProblemDetectorWants(t *testing.T) {
	none := t.TempDir()
	for name, tt := range map[string]struct {
		args []string
		want string // what it prints; a line that ends with ... says how it begins
	}{
		"no agent, no runtime":               {nil, "agent: ..."},
		"a flag that is not there":           {[]string{"--no-such-flag"}, "unknown flag: --no-such-flag; pitstop-agent check --help lists them"},
		"an argument":                        {[]string{"extra"}, `"extra": check takes flags alone; pitstop-agent check --help lists them`},
		"a flag without its value":           {[]string{"--agent"}, "flag needs an argument: --agent; pitstop-agent check --help lists them"},
		"no number":                          {[]string{"--min-free-bytes=10G"}, `invalid argument "10G" for "--min-free-bytes" flag: ...`},
		"less than nothing":                  {[]string{"--min-free-bytes=-1"}, "--min-free-bytes is -1: want 1 or more, or 0 to leave the disk out"},
		"no address":                         {[]string{"--agent=nope"}, `--agent is "nope": want unix:///PATH or http://HOST:PORT`},
		"no address at all":                  {[]string{"--agent="}, `--agent is "": want unix:///PATH or http://HOST:PORT`},
		"a socket without its path":          {[]string{"--agent=unix://"}, `--agent is "unix://": want unix:///PATH or http://HOST:PORT`},
		"a socket beside the working folder": {[]string{"--agent=unix://agent.sock"}, `--agent is "unix://agent.sock": want unix:///PATH or http://HOST:PORT`},
		"nobody's scheme":                    {[]string{"--agent=ftp://127.0.0.1:9464"}, `--agent is "ftp://127.0.0.1:9464": want unix:///PATH or http://HOST:PORT`},
		"no URL":                             {[]string{"--agent=http://[::1"}, `--agent is "http://[::1": want unix:///PATH or http://HOST:PORT`},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			cmd := command()
			cmd.SetOut(&out)
			cmd.SetArgs(append([]string{"check", "--agent=unix:///no/such.sock", "--runtime-root=" + none, "--kubelet-dir=" + none}, tt.args...))
			code := exitCode(cmd.ExecuteContext(t.Context()))
			begin, more := strings.CutSuffix(tt.want, "...")
			if got := out.String(); code != 2 || strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, begin) || !more && got != tt.want+"\n" {
				t.Errorf("exit %d, printed %q, want 2 and %q", code, got, tt.want)
			}
		})
	}
}

func TestAddressesOfTheAgent(t *testing.T) {
	for _, address := range []string{"unix:///var/lib/pitstop/agent.sock", "http://127.0.0.1:9464", "http://[::1]:9464/", "http://gpu-0", "http://:9464", "https://gpu-0:1"} {
		if err := (checkFlags{agent: address}).validate(); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}
