package main

import (
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want string // the error; empty: none
	}{
		"none":                {nil, ""},
		"all":                 {[]string{"--gpu=1", "--mib", "10", "--pinned=0", "--library=/x.so"}, ""},
		"no value":            {[]string{"--gpu"}, "flag needs an argument: -gpu"},
		"no flag":             {[]string{"3"}, `"3": want flags alone`},
		"an unknown flag":     {[]string{"--gpus=1"}, "flag provided but not defined: -gpus"},
		"a negative index":    {[]string{"--gpu=-1"}, "--gpu is -1: want 0 or more"},
		"nothing to allocate": {[]string{"--mib=0"}, "--mib is 0: want 1 or more"},
		"less than nothing":   {[]string{"--pinned=-1"}, "--pinned is -1: want 0 or more"},
		"no library":          {[]string{"--library="}, "--library is empty: want the name or path of NVIDIA's library"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			_, err := parse(tt.args, &out)
			if (err != nil) != (tt.want != "") || err != nil && err.Error() != tt.want {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if err != nil && (!strings.Contains(out.String(), tt.want) || !strings.Contains(out.String(), "-pinned")) {
				t.Errorf("printed %q", out.String())
			}
		})
	}
}
